// Key arithmetic is tested from Python, against numpy; here: layouts and errors.
#include <tvm/ffi/function.h>

#include <cmath>
#include <limits>

#include "check.h"

namespace ffi = tvm::ffi;

ffi::Function Global(const char* name) { return ffi::Function::GetGlobalRequired(name); }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void TestNanIsTheGreatestAndTiesKeepTheirOrder() {
  std::vector<float> x{2, kNan, -0.0f, 5, 0.0f, kNan, -INFINITY};
  std::vector<int64_t> indices(7);
  View input(x.data(), kFloat32, {7});
  View output(indices.data(), kInt64, {7});
  Global("relax_mlir.argsort")(&input.tensor, -1, false, &output.tensor);
  CHECK((indices == std::vector<int64_t>{6, 2, 4, 0, 3, 1, 5}), "ascending");
  Global("relax_mlir.argsort")(&input.tensor, 0, true, &output.tensor);
  CHECK((indices == std::vector<int64_t>{1, 5, 3, 0, 2, 4, 6}), "descending");
}

void TestTopKAlongAnInnerAxisWithStrides() {
  std::vector<int64_t> x{3, 9, 1, 4, 7, 2};  // columns [3, 1, 7] and [9, 4, 2]
  std::vector<int64_t> values(8, -1);
  std::vector<int32_t> indices(4);
  View input(x.data(), kInt64, {3, 2});
  View top(values.data(), kInt64, {2, 2}, {4, 2});  // with gaps
  View places(indices.data(), {kDLInt, 32, 1}, {2, 2});
  Global("relax_mlir.topk")(&input.tensor, 0, true, &top.tensor, &places.tensor);
  CHECK((values == std::vector<int64_t>{7, -1, 9, -1, 3, -1, 4, -1}), "values");
  CHECK((indices == std::vector<int32_t>{2, 0, 0, 1}), "indices");
}

void TestSortInPlaceAndWithTensorsAsAttributes() {
  std::vector<float> x{3, 1, 2, 6, 5, 4};
  int64_t axis = 1;
  bool descending = true;
  View data(x.data(), kFloat32, {2, 3});
  View axis_tensor(&axis, kInt64, {1});
  View descending_tensor(&descending, {kDLBool, 8, 1}, {});
  Global("relax_mlir.sort")(&data.tensor, &axis_tensor.tensor, &descending_tensor.tensor,
                            &data.tensor);
  CHECK((x == std::vector<float>{3, 2, 1, 6, 5, 4}), "in place");
}

void TestNonzero() {
  std::vector<float> x{0, 1, -0.0f, kNan, 5, 0};
  View matrix(x.data(), kFloat32, {2, 3});
  const auto found = Global("relax_mlir.nonzero")(&matrix.tensor).cast<ffi::Tensor>();
  const auto* data = static_cast<const int64_t*>(found.data_ptr());
  CHECK_EQUAL(found.size(0), 2);
  CHECK_EQUAL(found.size(1), 3);
  CHECK((std::vector<int64_t>(data, data + 6) == std::vector<int64_t>{0, 1, 1, 1, 0, 1}),
        "indices");

  View scalar(&x[1], kFloat32, {});
  const auto one = Global("relax_mlir.nonzero")(&scalar.tensor).cast<ffi::Tensor>();
  CHECK(one.size(0) == 0 && one.size(1) == 1, "a scalar has no dimensions");
  View empty(x.data(), kFloat32, {3, 0});
  const auto none = Global("relax_mlir.nonzero")(&empty.tensor).cast<ffi::Tensor>();
  CHECK(none.size(0) == 2 && none.size(1) == 0, "nothing is not zero");
}

void TestErrors() {
  std::vector<float> x(6);
  View input(x.data(), kFloat32, {2, 3});
  View wide(x.data(), kFloat32, {1, 6});
  View longer(x.data(), kFloat32, {2, 4});
  View halves(x.data(), kFloat16, {2, 3});
  View complex(x.data(), {kDLComplex, 64, 1}, {3});
  const auto sort = [&](View* from, int64_t axis, View* to) {
    return ErrorOf([&] { Global("relax_mlir.sort")(&from->tensor, axis, false, &to->tensor); });
  };
  CHECK_EQUAL(sort(&input, 2, &input), "ValueError: sort: axis 2: expected one of 2 dimensions");
  CHECK_EQUAL(sort(&input, 0, &wide),
              "ValueError: sort: values: expected the shape of the input "
              "with 1 at axis 0, got [1, 6]");
  CHECK_EQUAL(sort(&input, 1, &longer),
              "ValueError: sort: expected at most 3 values along axis 1, got 4");
  CHECK_EQUAL(sort(&input, 1, &halves),
              "TypeError: sort: values: expected type float32, got float16");
  CHECK_EQUAL(sort(&complex, 0, &complex),
              "TypeError: sort: cannot compare elements of type complex64");
  const std::string error =
      ErrorOf([&] { Global("relax_mlir.argsort")(&input.tensor, 0, false, &input.tensor); });
  CHECK_EQUAL(error, "TypeError: argsort: indices: expected int64 or int32, got float32");
}

int main() {
  TestNanIsTheGreatestAndTiesKeepTheirOrder();
  TestTopKAlongAnInnerAxisWithStrides();
  TestSortInPlaceAndWithTensorsAsAttributes();
  TestNonzero();
  TestErrors();
}
