// Interrupting calls: signals that arrive while the main thread is in native code.
//
// Python's C handler of a signal only notes that it has arrived; the handler of the program runs
// when the main thread asks for it (PyErr_CheckSignals). A thread of ours, the watcher, raises a
// flag at intervals while the main thread is in one long call. Kernels load the flag between
// pieces of work (`schedule-insert-interrupt-checks`), as does the pool between kernels. Who finds
// it raised on the main thread runs the handlers; if one raises an exception, the kernel is left
// where it stands, the rest of the call is skipped, and the exception is the call's.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_INTERRUPTS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_INTERRUPTS_H_

#include <stdint.h>

#include <atomic>

#include "abi.h"

namespace relax_mlir {

// Whether this thread runs the handlers of signals.
bool IsMainThread();

// The outermost call of the main thread begins and ends. `WakeWatcher` comes after the call is
// counted (running_call.h).
void BeginWatch();
void WakeWatcher();
void EndWatch();

// Runs the signal handlers that are due, if the flag is raised and this is the main thread. True:
// one has raised an exception, which is set in the interpreter, so that no Python code may run on
// this thread until it is thrown as `tvm::ffi::EnvErrorAlreadySet`.
bool IsInterrupted();

// For native loops that may run long: throws what a signal handler raises.
void ThrowIfInterrupted();

// How long who waits for other threads may go without asking `IsInterrupted`.
constexpr int64_t kInterruptPollMs = 50;

// Raises the flag for all threads, so that those in the kernel of a failed job leave it.
class Alarm {
 public:
  Alarm() = default;
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Once at most.
  void Raise();

 private:
  bool is_raised_ = false;
};

// Calls a tile function. False: it was left at a check, because a signal handler raised an
// exception, or `failure` was no longer kRelaxRt2Ok.
bool RunInterruptibly(relax_rt2_tile tile, void** buffers, const int64_t* sizes, void* scratch,
                      int64_t begin, int64_t end, const std::atomic<int32_t>& failure);

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_INTERRUPTS_H_
