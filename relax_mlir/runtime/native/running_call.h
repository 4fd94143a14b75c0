// Tracking of running calls into this library.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_RUNNING_CALL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_RUNNING_CALL_H_

#include <stdint.h>

#include "abi.h"

namespace relax_mlir {

// RAII scope of a call into the library; nested calls count once.
//
// Its thread occupies a CPU, so the pool gives each caller only workers that other callers leave.
// Calls of the main thread are watched for signals (interrupts.h). Once calls are closed
// (relax_rt2_close_calls), threads other than the closing one park here forever.
class RunningCall {
 public:
  RunningCall();
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  bool is_watched_ = false;
};

// Number of other threads in calls.
int32_t OtherRunningCalls();

// RAII scope that sets the context of the innermost executable call of this thread.
class ContextScope {
 public:
  explicit ContextScope(const relax_rt2_context* context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  // Whether a kernel of that call has failed, so that the rest of the call is skipped.
  static bool HasFailed();

 private:
  const relax_rt2_context* const outer_;
};

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_RUNNING_CALL_H_
