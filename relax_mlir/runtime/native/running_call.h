// The calls into this library that are running, and what ends them.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_RUNNING_CALL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_RUNNING_CALL_H_

#include <stdint.h>

#include "abi.h"

namespace relax_mlir {

// A call into the library, as long as it lives; a call within a call counts once.
//
// Its thread keeps a processor busy, so the pool lends to each caller only what the other callers
// leave. A call of the main thread is watched for signals (interrupts.h). Once calls are closed
// (relax_rt2_close_calls), threads other than the closing one park here for good.
class RunningCall {
 public:
  RunningCall();
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  bool is_watched_ = false;
};

// How many threads are in calls, this one left out.
int32_t OtherRunningCalls();

// The context of the innermost executable that this thread calls, as long as it lives.
class ContextScope {
 public:
  explicit ContextScope(const relax_rt2_context* context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  // Whether a kernel of that call has failed, so that nothing else of it may run.
  static bool HasFailed();

 private:
  const relax_rt2_context* const outer_;
};

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_RUNNING_CALL_H_
