// Results are tested from Python, against onnxruntime; here: layouts and errors.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>

#include <limits>

#include "check.h"

namespace ffi = tvm::ffi;

ffi::Function Global(const char* name) { return ffi::Function::GetGlobalRequired(name); }

template <typename T>
std::vector<T> Values(const ffi::Tensor& tensor) {
  const auto* data = static_cast<const T*>(tensor.data_ptr());
  return std::vector<T>(data, data + tensor.numel());
}

void TestCompressColumnsOfAView() {
  std::vector<float> x{1, 2, 3, -1, 4, 5, 6, -1};
  bool condition[] = {true, false, true};
  View matrix(x.data(), kFloat32, {2, 3}, {4, 1});  // with gaps
  View holds(condition, {kDLBool, 8, 1}, {3});
  const auto found = Global("relax_mlir.compress")(&matrix.tensor, &holds.tensor, 1);
  CHECK((Values<float>(found.cast<ffi::Tensor>()) == std::vector<float>{1, 3, 4, 6}), "columns");
}

void TestUniqueRowsInBothOrders() {
  std::vector<int64_t> x{2, 1, 1, 3, 2, 1};
  View rows(x.data(), kInt64, {3, 2});
  const auto find = [&](bool sorted) {
    return Global("relax_mlir.unique")(&rows.tensor, 0, sorted).cast<ffi::Array<ffi::Tensor>>();
  };
  const auto in_order = find(true);
  CHECK((Values<int64_t>(in_order[0]) == std::vector<int64_t>{1, 3, 2, 1}), "values in order");
  CHECK((Values<int64_t>(in_order[2]) == std::vector<int64_t>{1, 0, 1}), "inverse in order");
  const auto as_met = find(false);
  CHECK((Values<int64_t>(as_met[0]) == std::vector<int64_t>{2, 1, 1, 3}), "values as met");
  CHECK((Values<int64_t>(as_met[1]) == std::vector<int64_t>{0, 1}), "first as met");
  CHECK((Values<int64_t>(as_met[2]) == std::vector<int64_t>{0, 1, 0}), "inverse as met");
  CHECK((Values<int64_t>(as_met[3]) == std::vector<int64_t>{2, 1}), "counts as met");
}

void TestEmptySlices() {
  View nothing(nullptr, kFloat32, {3, 0});
  const auto rows = Global("relax_mlir.unique")(&nothing.tensor, 0, true);
  const auto found = rows.cast<ffi::Array<ffi::Tensor>>();
  CHECK_EQUAL(found[0].size(0), 1);  // all rows are equal
  CHECK((Values<int64_t>(found[3]) == std::vector<int64_t>{3}), "counts");
  const auto elements = Global("relax_mlir.unique")(&nothing.tensor, nullptr, true);
  CHECK_EQUAL(elements.cast<ffi::Array<ffi::Tensor>>()[0].size(0), 0);
}

void TestBoxesWithoutNumbersAreNeverChosen() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> boxes{0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3};
  std::vector<float> scores{nan, 1, 2};
  View sides(boxes.data(), kFloat32, {1, 3, 4});
  View values(scores.data(), kFloat32, {1, 1, 3});
  const auto found = Global("relax_mlir.non_max_suppression")(&sides.tensor, &values.tensor, 9,
                                                              0.5, nullptr, false);
  CHECK((Values<int64_t>(found.cast<ffi::Tensor>()) == std::vector<int64_t>{0, 0, 2, 0, 0, 1}),
        "chosen");
}

void TestErrors() {
  std::vector<float> x(6);
  View matrix(x.data(), kFloat32, {2, 3});
  View complex(x.data(), {kDLComplex, 64, 1}, {3});
  View condition(x.data(), {kDLBool, 8, 1}, {2});
  const auto compress = [&](View* from, View* holds, int64_t axis) {
    return ErrorOf(
        [&] { Global("relax_mlir.compress")(&from->tensor, &holds->tensor, axis); });
  };
  CHECK_EQUAL(compress(&matrix, &condition, 2),
              "ValueError: compress: axis 2: expected one of 2 dimensions");
  CHECK_EQUAL(compress(&matrix, &matrix, 0),
              "TypeError: compress: condition: expected a vector of bool, got 2 dimensions of "
              "float32");
  CHECK_EQUAL(compress(&complex, &condition, 0),
              "TypeError: compress: cannot compare elements of type complex64");
  const std::string boxes = ErrorOf([&] {
    Global("relax_mlir.non_max_suppression")(&matrix.tensor, &matrix.tensor, 1, 0.5, nullptr,
                                             false);
  });
  CHECK_EQUAL(boxes,
              "TypeError: non_max_suppression: boxes: expected 3 dimensions of float32, got 2 of "
              "float32");
}

int main() {
  TestCompressColumnsOfAView();
  TestUniqueRowsInBothOrders();
  TestEmptySlices();
  TestBoxesWithoutNumbersAreNeverChosen();
  TestErrors();
}
