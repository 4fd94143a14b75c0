// Padded copies and transforms of constants, on buffers that are exactly as large as needed.
#include <cstring>
#include <numeric>
#include <vector>

#include "abi.h"
#include "check.h"

template <typename T>
std::vector<T> Copied(const std::vector<T>& source, std::vector<int64_t> numbers, size_t count) {
  numbers.insert(numbers.begin(), {kRelaxRt2PaddedCopy, static_cast<int64_t>(sizeof(T))});
  std::vector<T> result(count, T{99});
  CHECK_EQUAL(relax_rt2_derive_constant(numbers.data(), source.data(), result.data(), 4), 0);
  return result;
}

// [rows, columns] to panels [blocks, rows, 4] of columns.
template <typename T>
void TestPanels(int64_t rows, int64_t columns) {
  constexpr int64_t kWidth = 4;
  std::vector<T> source(static_cast<size_t>(rows * columns));
  std::iota(source.begin(), source.end(), T{1});
  const int64_t blocks = (columns + kWidth - 1) / kWidth;
  for (const bool by_columns : {false, true}) {
    const int64_t row_stride = by_columns ? 1 : columns;
    const int64_t column_stride = by_columns ? rows : 1;
    const std::vector<T> panels = Copied<T>(source,
                                            {2, rows, row_stride, columns, column_stride, 3, blocks,
                                             1, kWidth, rows, 0, 1, kWidth, 1, 1},
                                            static_cast<size_t>(blocks * rows * kWidth));
    for (int64_t b = 0, i = 0; b < blocks; ++b) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = b * kWidth; c < (b + 1) * kWidth; ++c, ++i) {
          const int64_t from = r * row_stride + c * column_stride;
          CHECK_EQUAL(panels[static_cast<size_t>(i)],
                      c < columns ? source[static_cast<size_t>(from)] : T{0});
        }
      }
    }
  }
}

void TestOtherRanks() {
  CHECK(Copied<float>({7}, {0, 0}, 1) == std::vector<float>{7}, "rank 0");
  CHECK(Copied<float>({}, {1, 0, 1, 1, 3, 0, 1}, 3) == std::vector<float>(3, 0), "empty");
  // Two dimensions of one axis, of 5 elements: a plane is a row.
  const std::vector<float> split = Copied<float>({1, 2, 3, 4, 5}, {1, 5, 1, 2, 3, 0, 2, 2, 0, 1}, 6);
  CHECK(split == (std::vector<float>{1, 2, 3, 4, 5, 0}), "split");
  // Pairs of rows are interleaved, the last with zeros: [2, 3, 2] of [3, 3].
  const std::vector<float> pairs = Copied<float>(
      {1, 2, 3, 4, 5, 6, 7, 8, 9}, {2, 3, 3, 3, 1, 3, 2, 0, 2, 3, 1, 1, 2, 0, 1}, 12);
  CHECK(pairs == (std::vector<float>{1, 4, 2, 5, 3, 6, 7, 0, 8, 0, 9, 0}), "pairs");
}

void TestTransform(int64_t count) {
  const double matrix[] = {1, 0, 0.5, -1, 0, 2};  // 3 rows of 2
  std::vector<int64_t> numbers{kRelaxRt2Transform, 3, 2, count};
  numbers.resize(numbers.size() + 6);
  std::memcpy(&numbers[4], matrix, sizeof(matrix));
  std::vector<float> source(static_cast<size_t>(4 * count));
  std::iota(source.begin(), source.end(), -3.0f);
  std::vector<float> result(static_cast<size_t>(9 * count), 99);
  CHECK_EQUAL(relax_rt2_derive_constant(numbers.data(), source.data(), result.data(), 2), 0);
  for (int64_t e = 0; e < count; ++e) {
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < 2; ++i) {
          for (int64_t j = 0; j < 2; ++j) {
            const double s = source[static_cast<size_t>((i * 2 + j) * count + e)];
            sum += matrix[r * 2 + i] * s * matrix[c * 2 + j];
          }
        }
        CHECK_EQUAL(result[static_cast<size_t>((r * 3 + c) * count + e)], static_cast<float>(sum));
      }
    }
  }
}

int main() {
  TestPanels<float>(3, 4);
  TestPanels<float>(50, 9);
  TestPanels<uint8_t>(5, 7);
  TestPanels<int16_t>(17, 1);
  TestPanels<double>(33, 6);
  TestOtherRanks();
  for (const int64_t count : {0, 1, 63, 64, 1000}) TestTransform(count);
  return 0;
}
