// Valid indices are tested from Python, against onnxruntime; here: types, views, errors.
#include <tvm/ffi/function.h>

#include <cstdint>
#include <limits>
#include <string>

#include "check.h"

namespace ffi = tvm::ffi;

constexpr int64_t kNoLeast = 1;
constexpr int64_t kNoIgnored = 2;
const DLDataType kText{kDLUInt, 8, 1};

struct Bounds {
  std::vector<int64_t> limits;
  int64_t missing = kNoLeast | kNoIgnored;
  int64_t least = 0;
  int64_t ignored = 0;
};

// Checks indices and compares the copy.
template <typename T>
void Check(std::vector<T> indices, DLDataType dtype, const std::vector<int64_t>& shape,
           Bounds bounds) {
  std::vector<T> copy(indices.size() + 1, T{99});
  std::vector<int64_t> options{bounds.missing, bounds.least, bounds.ignored};
  std::string message = "here";
  View given(indices.data(), dtype, shape);
  View limits(bounds.limits.data(), kInt64, {static_cast<int64_t>(bounds.limits.size())});
  View rest(options.data(), kInt64, {3});
  View text(message.data(), kText, {static_cast<int64_t>(message.size())});
  View y(copy.data(), dtype, shape);
  ffi::Function::GetGlobalRequired("relax_mlir.check_indices")(
      &given.tensor, &limits.tensor, &rest.tensor, &text.tensor, &y.tensor);
  indices.push_back(T{99});
  CHECK(copy == indices, "the copy");
}

template <typename T>
void TestType(DLDataTypeCode code) {
  const DLDataType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * sizeof(T)), 1};
  constexpr bool is_signed = std::numeric_limits<T>::is_signed;
  Check<T>({0, 4, static_cast<T>(is_signed ? -5 : 1)}, dtype, {3}, {{5}});
  const auto most = std::numeric_limits<T>::max();
  const std::string error = ErrorOf([&] { Check<T>({0, most, 9}, dtype, {3}, {{5}}); });
  CHECK_EQUAL(error, "IndexOutOfRangeError: here: index out of range at [1]: expected -5 to 4, got " +
                         std::to_string(most));
}

void TestTypes() {
  TestType<int8_t>(kDLInt);
  TestType<int16_t>(kDLInt);
  TestType<int32_t>(kDLInt);
  TestType<int64_t>(kDLInt);
  TestType<uint8_t>(kDLUInt);
  TestType<uint16_t>(kDLUInt);
  TestType<uint32_t>(kDLUInt);
  TestType<uint64_t>(kDLUInt);
}

void TestTheSmallestIntegerIsOutOfRange() {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const std::string error = ErrorOf([&] { Check<int64_t>({least}, kInt64, {}, {{5}}); });
  CHECK_EQUAL(error, "IndexOutOfRangeError: here: index out of range at []: expected -5 to 4, got " +
                         std::to_string(least));
}

void TestComponentsHaveLimits() {
  Check<int64_t>({1, 6, -2, -7}, kInt64, {2, 2}, {{2, 7}});
  const std::string error = ErrorOf([&] { Check<int64_t>({1, 6, 6, 1}, kInt64, {2, 2}, {{2, 7}}); });
  CHECK_EQUAL(error, "IndexOutOfRangeError: here: index out of range at [1, 0]: expected -2 to 1, got 6");
}

void TestLeastAndIgnored() {
  Check<int64_t>({0, 2, -100}, kInt64, {3}, {{3}, 0, 0, -100});
  const std::string error = ErrorOf([&] { Check<int64_t>({-1}, kInt64, {1}, {{3}, 0, 0, -100}); });
  CHECK_EQUAL(error, "IndexOutOfRangeError: here: index out of range at [0]: expected 0 to 2, got -1");
}

void TestAnAxisWithoutElements() {
  Check<int64_t>({}, kInt64, {0}, {{0}});
  const std::string error = ErrorOf([&] { Check<int64_t>({0}, kInt64, {1}, {{0}}); });
  CHECK_EQUAL(error, "IndexOutOfRangeError: here: index out of range at [0]: expected none, got 0");
}

void TestOperandsThatDoNotFit() {
  CHECK(ErrorOf([] { Check<int64_t>({0, 0}, kInt64, {2}, {{1, 1, 1}}); }).find("3") !=
            std::string::npos,
        "limits that are no components");
  CHECK(ErrorOf([] { Check<float>({0}, kFloat32, {1}, {{1}}); }).find("float32") !=
            std::string::npos,
        "floats");
}

int main() {
  TestTypes();
  TestTheSmallestIntegerIsOutOfRange();
  TestComponentsHaveLimits();
  TestLeastAndIgnored();
  TestAnAxisWithoutElements();
  TestOperandsThatDoNotFit();
}
