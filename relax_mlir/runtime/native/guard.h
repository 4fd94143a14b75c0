// Guarded calls of kernels: a test mode that detects out-of-bounds accesses.
//
// A guarded call copies every buffer of a kernel between guard pages, and runs the kernel twice:
// with the buffers ending at a guard page, then beginning at one. Scratch memory is guarded the
// same way. An out-of-bounds access faults, which aborts the kernel (not the process), and raises
// an error that names the buffer. Pure outputs and scratch are filled with different bytes in each
// run, so results that depend on uninitialised bytes differ, which is an error, too.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_GUARD_H_
#define RELAX_MLIR_RUNTIME_NATIVE_GUARD_H_

#include <stdint.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace relax_mlir {

// Kind of a kernel's buffer in `main`, for `relax_rt2_guarded_buffer::kind`.
enum GuardKind : int64_t {
  kGuardInput = 0,
  kGuardOutput = 1,
  kGuardConstant = 2,
  kGuardArena = 3,
  kGuardScratch = 4,
};

// The end of a buffer that is adjacent to a guard page.
enum class GuardSide { kEnd, kBegin };

// Memory between two zones of guard pages. The constructor throws std::bad_alloc.
class GuardedMemory {
 public:
  GuardedMemory(int64_t bytes, GuardSide side, GuardKind kind, int64_t number);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // Makes later writes fault, too.
  void MakeReadOnly();

  // Whether `address` is in the memory or in its guard zones.
  bool Covers(const char* address) const {
    return address >= base_ && address < base_ + total_bytes_;
  }

  // Description such as "input 2".
  std::string Describe() const;

 private:
  friend class GuardedRun;

  char* base_;
  int64_t total_bytes_;
  char* pages_;
  int64_t page_bytes_;
  char* data_;
  int64_t bytes_;
  GuardKind kind_;
  int64_t number_;
};

// One run of a guarded kernel, shared by threads of the pool.
class GuardedRun {
 public:
  GuardedRun(GuardSide side, int64_t kernel) : side_(side), kernel_(kernel) {}

  GuardSide side() const { return side_; }

  // Fill byte of uninitialised memory.
  unsigned char filler() const { return side_ == GuardSide::kEnd ? 0xff : 0x2b; }

  // Calls `body(argument)`, compiled code whose frames need no destructors. False if it accessed a
  // guard page.
  bool TryCall(void (*body)(void*), void* argument);

  // The first fault of any thread; empty if there was none.
  std::string Fault();

  // Records a masked access with inactive lanes out of bounds: no fault, but slow on unmapped
  // pages, and a fault on machines without fault suppression.
  void NoteMaskedAccess(const char* begin, int64_t bytes) const;

  // The run of this thread; NULL outside of guarded calls.
  static GuardedRun* Current();

 private:
  const GuardSide side_;
  const int64_t kernel_;
  std::mutex mutex_;
  std::string fault_;
};

// Associates the thread with `run` during its lifetime; owns the scratch memory of its tiles.
class GuardedThread {
 public:
  explicit GuardedThread(GuardedRun* run);
  ~GuardedThread();
  GuardedThread(const GuardedThread&) = delete;
  GuardedThread& operator=(const GuardedThread&) = delete;

  // Scratch buffer `number` of a tile, refilled. Throws std::bad_alloc.
  void* Scratch(int64_t number, int64_t bytes);

  GuardedRun* run() const { return run_; }

  // The innermost object of this thread; NULL outside of guarded calls.
  static GuardedThread* Current();

 private:
  GuardedRun* const run_;
  GuardedThread* const outer_;
  std::map<int64_t, std::unique_ptr<GuardedMemory>> scratch_;
};

// The error of the last guarded call of this thread.
void SetGuardReport(std::string report);
std::string TakeGuardReport();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_GUARD_H_
