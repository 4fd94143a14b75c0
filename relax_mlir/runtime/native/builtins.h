// Functions of the runtime that compiled code calls by name (relax_rt2_call_packed).
//
// They take tensors, write to the last ones, throw Failure, and know neither tvm-ffi nor Python.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_BUILTINS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_BUILTINS_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#include <array>

namespace relax_mlir {

struct Builtin {
  const char* name;
  int32_t arguments;
  void (*call)(DLTensor* const* arguments);
};

constexpr int32_t kMaxBuiltinArguments = 5;

// Sorting along an axis (sort.cc). Attributes are tensors of one integer or bool.
void Sort(DLTensor* const* arguments);     // x, axis, descending, values
void Argsort(DLTensor* const* arguments);  // x, axis, descending, indices
void TopK(DLTensor* const* arguments);     // x, axis, largest, values, indices

// Bounds checks (index_check.cc).
void CheckIndices(DLTensor* const* arguments);  // indices, limits, bounds, message, y

template <size_t kCount>
std::array<const DLTensor*, kCount> Tensors(DLTensor* const* arguments) {
  std::array<const DLTensor*, kCount> tensors;
  for (size_t i = 0; i < kCount; ++i) tensors[i] = arguments[i];
  return tensors;
}

constexpr std::array<Builtin, 4> kBuiltins{{
    {"relax_mlir.sort", 4, Sort},
    {"relax_mlir.argsort", 4, Argsort},
    {"relax_mlir.topk", 5, TopK},
    {"relax_mlir.check_indices", 5, CheckIndices},
}};

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_BUILTINS_H_
