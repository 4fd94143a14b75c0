#include "ffi_tensors.h"

#include <complex>
#include <numeric>

#include "check.h"

using namespace relax_mlir;

void TestContiguity() {
  std::vector<float> data(64);
  CHECK(IsContiguous(View(data.data(), kFloat32, {2, 3, 4}).tensor), "row-major");
  CHECK(!IsContiguous(View(data.data(), kFloat32, {2, 3}, {1, 2}).tensor), "column-major");
  CHECK(IsContiguous(View(data.data(), kFloat32, {1, 3}, {99, 1}).tensor), "a size of 1");
  CHECK(IsContiguous(View(data.data(), kFloat32, {0, 3}, {7, 5}).tensor), "empty");
  CHECK(IsContiguous(View(data.data(), kFloat32, {}).tensor), "a scalar");
  CHECK(!IsContiguous(View(&data[5], kFloat32, {5}, {-1}).tensor), "backwards");
  View no_strides(data.data(), kFloat32, {2, 3});
  no_strides.tensor.strides = nullptr;
  CHECK(IsContiguous(no_strides.tensor), "no strides mean row-major");
}

void TestAlignment() {
  std::vector<char> data(64);
  CHECK(IsElementAligned(View(data.data() + 4, kFloat32, {2}).tensor), "4 of 4");
  CHECK(!IsElementAligned(View(data.data() + 2, kFloat32, {2}).tensor), "2 of 4");
  CHECK(IsElementAligned(View(data.data() + 2, kFloat32, {0}).tensor), "nothing to align");
  CHECK(IsElementAligned(View(data.data() + 8, {kDLComplex, 128, 1}, {1}).tensor), "two doubles");
  View offset(data.data() + 2, kFloat32, {2});
  offset.tensor.byte_offset = 2;
  CHECK(IsElementAligned(offset.tensor), "the offset counts");
}

// [2, 3, 4] with the axes in another order in memory, one of them backwards.
template <typename T>
void TestCopies(DLDataType dtype) {
  std::vector<T> data(24);
  for (int i = 0; i < 24; ++i) data[static_cast<size_t>(i)] = T(i);
  View view(&data[16], dtype, {2, 3, 4}, {1, -8, 2});  // memory order: axes 1 (reversed), 2, 0
  std::vector<T> copy(24);
  CopyToContiguous(view.tensor, copy.data());
  for (int i = 0; i < 24; ++i) {
    const int a = i / 12, b = i / 4 % 3, c = i % 4;
    CHECK(copy[static_cast<size_t>(i)] == T(16 + a - 8 * b + 2 * c), "element " << i);
  }
  std::vector<T> back(24);
  View target(&back[16], dtype, {2, 3, 4}, {1, -8, 2});
  CopyFromContiguous(copy.data(), target.tensor);
  CHECK(back == data, "a copy back restores the memory");
}

void TestOverlap() {
  std::vector<float> data(32);
  View even(&data[0], kFloat32, {8}, {2});
  View odd(&data[1], kFloat32, {8}, {2});
  View all(&data[0], kFloat32, {16});
  View rest(&data[16], kFloat32, {16});
  View backwards(&data[16], kFloat32, {4}, {-1});
  View empty(&data[0], kFloat32, {0});
  CHECK(RangesMeet(even.tensor, odd.tensor), "their ranges interleave");
  CHECK(!Overlaps(even.tensor, odd.tensor), "they share no element");
  CHECK(Overlaps(even.tensor, all.tensor), "a part");
  CHECK(!Overlaps(all.tensor, rest.tensor), "neighbours");
  CHECK(Overlaps(all.tensor, backwards.tensor), "a negative stride reaches down");
  CHECK(Overlaps(rest.tensor, backwards.tensor), "its first element");
  CHECK(!Overlaps(all.tensor, empty.tensor), "nothing");
  CHECK(!OverlapsItself(even.tensor), "a stride of 2");
  CHECK(!OverlapsItself(View(&data[0], kFloat32, {2, 3}, {1, 2}).tensor), "transposed");
  CHECK(OverlapsItself(View(&data[0], kFloat32, {4, 3}, {0, 1}).tensor), "broadcast");
  CHECK(OverlapsItself(View(&data[0], kFloat32, {4, 3}, {1, 1}).tensor), "a sliding window");
  CHECK(!OverlapsItself(View(&data[0], kFloat32, {2, 3}, {3, 2}).tensor), "{0,2,4} and {3,5,7}");
  CHECK(OverlapsItself(View(&data[0], kFloat32, {3, 4}, {3, 2}).tensor), "6 = 2 * 3 = 3 * 2");
}

void TestAllocation() {
  const int64_t shape[] = {3, 0, 5};
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
    const tvm::ffi::Tensor tensor = AllocateTensor(tvm::ffi::ShapeView(shape, rank), kFloat32);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u);
    CHECK(tensor.data_ptr() != nullptr, "also when it is empty");
    CHECK(tensor.IsContiguous(), "row-major");
  }
}

void TestTypeNames() {
  for (const char* name : {"float32", "bfloat16", "bool", "int4", "complex64", "complex128",
                           "float8_e4m3fn", "uint16"}) {
    CHECK_EQUAL(DataTypeName(ParseDataType(name)), name);
  }
  CHECK_EQUAL(ItemBytes(ParseDataType("int4")), 1);
  CHECK_EQUAL(ItemBytes(ParseDataType("complex128")), 16);
}

int main() {
  TestContiguity();
  TestAlignment();
  TestCopies<int8_t>({kDLInt, 8, 1});
  TestCopies<int16_t>({kDLInt, 16, 1});
  TestCopies<float>(kFloat32);
  TestCopies<double>({kDLFloat, 64, 1});
  TestCopies<std::complex<double>>({kDLComplex, 128, 1});
  TestOverlap();
  TestAllocation();
  TestTypeNames();
}
