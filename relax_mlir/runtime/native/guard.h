// Guarded calls of kernels: a test mode that finds accesses out of bounds.
//
// A guarded call copies every buffer of a kernel to pages of its own, between pages without
// access, and runs the kernel twice: the buffers end at such a page, then begin at one. Scratch
// memory is guarded the same way. An access out of bounds is a fault, which ends the kernel (not
// the process) and becomes an error that names the buffer. Outputs that are no inputs, and scratch,
// begin with other bytes in each run, so results that depend on bytes that nothing wrote differ,
// which is an error as well.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_GUARD_H_
#define RELAX_MLIR_RUNTIME_NATIVE_GUARD_H_

#include <stdint.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace relax_mlir {

// What a buffer of a kernel is to `main`, which passes it in `relax_rt2_guarded_buffer::kind`.
enum GuardKind : int64_t {
  kGuardInput = 0,
  kGuardOutput = 1,
  kGuardConstant = 2,
  kGuardArena = 3,
  kGuardScratch = 4,
};

// Which end of a buffer touches a page without access.
enum class GuardSide { kEnd, kBegin };

// Memory between two zones of pages without access. Throws std::bad_alloc.
class GuardedMemory {
 public:
  GuardedMemory(int64_t bytes, GuardSide side, GuardKind kind, int64_t number);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // From here on, a write is a fault, too.
  void MakeReadOnly();

  // Whether `address` is in the memory or in the zones around it.
  bool Covers(const char* address) const {
    return address >= base_ && address < base_ + total_bytes_;
  }

  // What it is, such as "input 2".
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

// One run of a guarded kernel, which threads of the pool may share.
class GuardedRun {
 public:
  GuardedRun(GuardSide side, int64_t kernel) : side_(side), kernel_(kernel) {}

  GuardSide side() const { return side_; }

  // What memory holds before anything writes to it.
  unsigned char filler() const { return side_ == GuardSide::kEnd ? 0xff : 0x2b; }

  // Calls `body(argument)`: compiled code, whose frames need no destructors. False if it touched a
  // page without access.
  bool TryCall(void (*body)(void*), void* argument);

  // The first of the faults of all threads; empty if there was none.
  std::string Fault();

  // Notes a masked access that reaches out of a buffer with lanes that are off: no fault, but slow
  // on pages that are not mapped, and a fault on machines without such masks.
  void NoteMaskedAccess(const char* begin, int64_t bytes) const;

  // The run that this thread works for; NULL in calls that are not guarded.
  static GuardedRun* Current();

 private:
  const GuardSide side_;
  const int64_t kernel_;
  std::mutex mutex_;
  std::string fault_;
};

// The thread works for `run` as long as this lives; holds the scratch memory of its tiles.
class GuardedThread {
 public:
  explicit GuardedThread(GuardedRun* run);
  ~GuardedThread();
  GuardedThread(const GuardedThread&) = delete;
  GuardedThread& operator=(const GuardedThread&) = delete;

  // Buffer `number` of a tile, filled anew. Throws std::bad_alloc.
  void* Scratch(int64_t number, int64_t bytes);

  GuardedRun* run() const { return run_; }

  // The innermost of this thread; NULL in calls that are not guarded.
  static GuardedThread* Current();

 private:
  GuardedRun* const run_;
  GuardedThread* const outer_;
  std::map<int64_t, std::unique_ptr<GuardedMemory>> scratch_;
};

// Keeps what a guarded call of this thread did wrong, until it is taken.
void SetGuardReport(std::string report);
std::string TakeGuardReport();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_GUARD_H_
