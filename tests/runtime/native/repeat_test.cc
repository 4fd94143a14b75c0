// Argument sources and termination of the native loop executor.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>

#include <algorithm>

#include "check.h"
#include "ffi_tensors.h"

namespace ffi = tvm::ffi;

ffi::Tensor Floats(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  ffi::Tensor tensor = relax_mlir::AllocateTensor(ffi::Shape(shape), kFloat32);
  std::copy(values.begin(), values.end(), static_cast<float*>(tensor.data_ptr()));
  return tensor;
}

ffi::Tensor Bool(bool value) {
  ffi::Tensor tensor = relax_mlir::AllocateTensor(ffi::Shape({}), {kDLBool, 8, 1});
  *static_cast<bool*>(tensor.data_ptr()) = value;
  return tensor;
}

std::vector<float> Values(const ffi::Any& tensor) {
  const auto found = tensor.cast<ffi::Tensor>();
  const auto* data = static_cast<const float*>(found.data_ptr());
  return std::vector<float>(data, data + found.numel());
}

// Of a state, a step's number and an element: whether the sum is small, and the sum.
ffi::Function Sum() {
  return ffi::Function::FromPacked([](ffi::PackedArgs args, ffi::Any* result) {
    const auto* state = args[0].cast<DLTensor*>();
    const auto* number = args[1].cast<DLTensor*>();
    const auto* element = args[2].cast<DLTensor*>();
    CHECK_EQUAL(element->ndim, 1);
    const float sum = *static_cast<float*>(state->data) + *static_cast<float*>(element->data) +
                      static_cast<float>(*static_cast<int64_t*>(number->data));
    *result = ffi::Array<ffi::Any>{Bool(sum < 50), Floats({sum}, {1})};
  });
}

ffi::Array<ffi::Any> Repeat(float state, int64_t direction, int64_t first, int64_t limit) {
  const ffi::Tensor step = relax_mlir::AllocateTensor(ffi::Shape({}), kInt64);
  const ffi::Array<ffi::Any> given{Floats({state}, {1}), step, Floats({1, 2, 4}, {3, 1})};
  return ffi::Function::GetGlobalRequired("relax_mlir.repeat")(
             Sum(), given, ffi::Array<int64_t>{1, -2, direction}, first, limit, 0,
             ffi::Array<int64_t>{1})
      .cast<ffi::Array<ffi::Any>>();
}

void TestElementsForwardAndBackward() {
  const auto forward = Repeat(0, -3, 0, 3);
  CHECK_EQUAL(forward[0].cast<int64_t>(), 3);
  CHECK((Values(forward[3]) == std::vector<float>{1, 4, 10}), "forward");
  CHECK((Values(Repeat(0, -4, 0, 3)[3]) == std::vector<float>{4, 7, 10}), "backward");
}

void TestStepsFromTheMiddleOnAsFarAsThereAreElements() {
  const auto rest = Repeat(0, -3, 1, 9);
  CHECK_EQUAL(rest[0].cast<int64_t>(), 2);
  CHECK((Values(rest[3]) == std::vector<float>{3, 9}), "numbers and elements from 1 on");
}

void TestTheConditionEndsIt() {
  const auto found = Repeat(48, -3, 0, 3);
  CHECK_EQUAL(found[0].cast<int64_t>(), 2);
  CHECK_EQUAL(found[1].cast<bool>(), false);
  CHECK((Values(found[3]) == std::vector<float>{49, 52}), "the last one too");
}

int main() {
  TestElementsForwardAndBackward();
  TestStepsFromTheMiddleOnAsFarAsThereAreElements();
  TestTheConditionEndsIt();
  return 0;
}
