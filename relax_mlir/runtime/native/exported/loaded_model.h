// The model of an exported library.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_LOADED_MODEL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_LOADED_MODEL_H_

#include "model.h"

namespace relax_mlir {

// The variant for this processor, read by the first call. Throws Failure and std::bad_alloc.
Model& LoadedModel();

// Runs it on tensors that are checked, inputs before outputs, with at most `threads` threads, or
// one per processor for 0.
void RunLoadedModel(Model& model, const DLTensor* const* tensors, void* const* allocated,
                    const int64_t* sizes, int32_t threads);

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_LOADED_MODEL_H_
