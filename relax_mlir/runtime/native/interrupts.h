// Interrupts: handling of signals that arrive while the main thread is in native code.
//
// Python's C signal handler only records a signal; the program's handler runs when the main thread
// polls (PyErr_CheckSignals). A watcher thread raises a flag at intervals while the main thread is
// in a long call. Kernels poll the flag between chunks of work
// (`schedule-insert-interrupt-checks`), as does the pool between kernels. The main thread then runs
// the handlers; if one raises an exception, the kernel is aborted, the rest of the call is skipped,
// and the call raises the exception.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_INTERRUPTS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_INTERRUPTS_H_

#include <stdint.h>

#include <atomic>

#include "abi.h"

namespace relax_mlir {

// Whether this thread runs signal handlers.
bool IsMainThread();

// The outermost call of the main thread begins and ends. `WakeWatcher` comes after the call is
// counted (running_call.h).
void BeginWatch();
void WakeWatcher();
void EndWatch();

// Runs pending signal handlers, if the flag is raised and this is the main thread. Returns true if
// one raised an exception, which is pending in the interpreter, so that no Python code may run on
// this thread until it is thrown as `tvm::ffi::EnvErrorAlreadySet`.
bool IsInterrupted();

// For long-running native loops: throws the exception of a signal handler.
void ThrowIfInterrupted();

// Polling interval of `IsInterrupted` while waiting for other threads.
constexpr int64_t kInterruptPollMs = 50;

// Raises the flag for all threads, so that those in the kernel of a failed job abort it.
class Alarm {
 public:
  Alarm() = default;
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Idempotent.
  void Raise();

 private:
  bool is_raised_ = false;
};

// Calls a tile function. False if it was aborted at a check, because a signal handler raised an
// exception, or `failure` was no longer kRelaxRt2Ok.
bool RunInterruptibly(relax_rt2_tile tile, void** buffers, const int64_t* sizes, void* scratch,
                      int64_t begin, int64_t end, const std::atomic<int32_t>& failure);

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_INTERRUPTS_H_
