// Failures of functions of the runtime that compiled code called.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_BUILTIN_CALL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_BUILTIN_CALL_H_

#include <exception>

namespace relax_mlir {

// What a function threw in this thread since the last call; null if none did.
std::exception_ptr TakeRaised();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_BUILTIN_CALL_H_
