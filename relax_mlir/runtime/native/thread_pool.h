// Who works at the same time in this process.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_THREAD_POOL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_THREAD_POOL_H_

namespace relax_mlir {

// A call of an executable, as long as it lives. Its thread keeps a processor busy, so the pool
// lends to each caller only what the other callers leave. A call within a call counts once.
class RunningCall {
 public:
  RunningCall();
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;
};

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_THREAD_POOL_H_
