// Failures of functions of the runtime that compiled code called.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_BUILTIN_CALL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_BUILTIN_CALL_H_

namespace relax_mlir {

// Throws what the last function threw in this thread, if it failed.
void RethrowRaised();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_BUILTIN_CALL_H_
