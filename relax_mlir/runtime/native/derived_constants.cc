// Constants that are computed from others when a model is loaded.
#include <algorithm>
#include <array>
#include <cstring>

#include "abi.h"

namespace relax_mlir {
namespace {

constexpr int64_t kMaxRank = RELAX_RT2_MAX_DERIVATION_RANK;
constexpr int64_t kMaxTransform = RELAX_RT2_MAX_TRANSFORM;

struct Axis {
  int64_t extent;
  int64_t stride;
};

struct Dim {
  int64_t size;
  int64_t axis;
  int64_t factor;
};

using Indices = std::array<int64_t, kMaxRank + 1>;

// A padded copy. Its last two dimensions are a plane, if they belong to different axes, else the
// last one; planes are copied in parallel.
class PaddedCopy {
 public:
  PaddedCopy(const int64_t* numbers, const void* source, void* result)
      : source_(static_cast<const char*>(source)), result_(static_cast<char*>(result)) {
    element_bytes_ = *numbers++;
    axis_count_ = *numbers++;
    axes_[kMaxRank] = {1, 0};
    for (int64_t a = 0; a < axis_count_; ++a, numbers += 2) axes_[a] = {numbers[0], numbers[1]};
    int64_t rank = *numbers++;
    for (int64_t d = 0; d < rank; ++d, numbers += 3) {
      dims_[d] = {numbers[0], numbers[1], numbers[2]};
    }
    if (rank > 0) column_ = dims_[--rank];
    if (rank > 0 && dims_[rank - 1].axis != column_.axis) row_ = dims_[--rank];
    outer_ = rank;
    for (int64_t d = 0; d < outer_; ++d) planes_ *= dims_[d].size;
  }

  int64_t planes() const { return planes_; }

  void Copy(int64_t begin, int64_t end) const {
    switch (element_bytes_) {
      case 1: return CopyPlanes<uint8_t>(begin, end);
      case 2: return CopyPlanes<uint16_t>(begin, end);
      case 4: return CopyPlanes<uint32_t>(begin, end);
      default: return CopyPlanes<uint64_t>(begin, end);
    }
  }

 private:
  static constexpr int64_t kBlock = 16;  // rows, of which a column is read at once

  template <typename T>
  void CopyPlanes(int64_t begin, int64_t end) const {
    Indices indices{};
    for (int64_t d = outer_ - 1, rest = begin; d >= 0; --d) {
      indices[d] = rest % dims_[d].size;
      rest /= dims_[d].size;
    }
    const auto* source = reinterpret_cast<const T*>(source_);
    T* result = reinterpret_cast<T*>(result_) + begin * row_.size * column_.size;
    for (int64_t plane = begin; plane < end; ++plane, result += row_.size * column_.size) {
      CopyPlane(source, indices, result);
      for (int64_t d = outer_ - 1; d >= 0 && ++indices[d] == dims_[d].size; --d) indices[d] = 0;
    }
  }

  template <typename T>
  void CopyPlane(const T* source, const Indices& indices, T* result) const {
    Indices at{};
    for (int64_t d = 0; d < outer_; ++d) at[dims_[d].axis] += dims_[d].factor * indices[d];
    int64_t rows = CountBelow(row_, at);
    const int64_t columns = CountBelow(column_, at);
    for (int64_t a = 0; a < axis_count_; ++a) {
      if (at[a] >= axes_[a].extent) rows = 0;
      source += at[a] * axes_[a].stride;
    }
    if (rows == 0 || columns < column_.size || rows < row_.size) {
      std::memset(result, 0, static_cast<size_t>(row_.size * column_.size) * sizeof(T));
    }
    if (rows == 0 || columns == 0) return;
    const int64_t row_step = row_.factor * axes_[row_.axis].stride;
    const int64_t step = column_.factor * axes_[column_.axis].stride;
    if (step == 1) {
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(source + r * row_step, columns, result + r * column_.size);
      }
      return;
    }
    for (int64_t block = 0; block < rows; block += kBlock) {
      const int64_t end = std::min(rows, block + kBlock);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t r = block; r < end; ++r) {
          result[r * column_.size + c] = source[r * row_step + c * step];
        }
      }
    }
  }

  // Indices of a dimension below the extent of its axis.
  int64_t CountBelow(const Dim& dim, const Indices& at) const {
    const int64_t rest = axes_[dim.axis].extent - at[dim.axis];
    if (rest <= 0) return 0;
    return dim.factor == 0 ? dim.size : std::min(dim.size, (rest - 1) / dim.factor + 1);
  }

  const char* source_;
  char* result_;
  int64_t element_bytes_;
  int64_t axis_count_;
  std::array<Axis, kMaxRank + 1> axes_{};
  std::array<Dim, kMaxRank> dims_{};
  // If the result has fewer dimensions, they are of size 1, on an axis after all others.
  Dim row_{1, kMaxRank, 0};
  Dim column_{1, kMaxRank, 0};
  int64_t outer_ = 0;
  int64_t planes_ = 1;
};

// M s M^T for `count` matrices s, whose elements are `count` apart.
class Transform {
 public:
  Transform(const int64_t* numbers, const void* source, void* result)
      : rows_(numbers[0]),
        columns_(numbers[1]),
        count_(numbers[2]),
        source_(static_cast<const float*>(source)),
        result_(static_cast<float*>(result)) {
    for (int64_t i = 0; i < rows_ * columns_; ++i) {
      std::memcpy(&matrix_[i], &numbers[3 + i], sizeof(double));
    }
  }

  int64_t blocks() const { return (count_ + kBlock - 1) / kBlock; }

  void Apply(int64_t begin, int64_t end) const {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock;
      ApplyBlock(first, std::min(kBlock, count_ - first));
    }
  }

 private:
  static constexpr int64_t kBlock = 64;

  void ApplyBlock(int64_t first, int64_t size) const {
    double half[kMaxTransform * kMaxTransform][kBlock];  // M s
    double sum[kBlock];
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t j = 0; j < columns_; ++j) {
        double* out = half[r * columns_ + j];
        std::fill_n(out, size, 0.0);
        for (int64_t i = 0; i < columns_; ++i) {
          const float* in = source_ + (i * columns_ + j) * count_ + first;
          const double factor = matrix_[r * columns_ + i];
          for (int64_t e = 0; e < size; ++e) out[e] += factor * in[e];
        }
      }
    }
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < rows_; ++c) {
        std::fill_n(sum, size, 0.0);
        for (int64_t j = 0; j < columns_; ++j) {
          const double* in = half[r * columns_ + j];
          const double factor = matrix_[c * columns_ + j];
          for (int64_t e = 0; e < size; ++e) sum[e] += factor * in[e];
        }
        float* out = result_ + (r * rows_ + c) * count_ + first;
        for (int64_t e = 0; e < size; ++e) out[e] = static_cast<float>(sum[e]);
      }
    }
  }

  int64_t rows_;
  int64_t columns_;
  int64_t count_;
  const float* source_;
  float* result_;
  std::array<double, kMaxTransform * kMaxTransform> matrix_{};
};

template <typename Task, void (Task::*kRun)(int64_t, int64_t) const>
relax_rt2_failure RunParallel(const Task& task, int64_t tiles, int32_t threads) {
  relax_rt2_context context{threads, kRelaxRt2Ok, nullptr};
  void* buffers[] = {const_cast<Task*>(&task)};
  const auto tile = [](void** given, const int64_t*, void*, int64_t begin, int64_t end) {
    (static_cast<const Task*>(*given)->*kRun)(begin, end);
  };
  const int64_t grain = tiles / (int64_t{8} * std::max(threads, 1)) + 1;
  relax_rt2_parallel_for(&context, tile, buffers, nullptr, tiles, grain, 0);
  return static_cast<relax_rt2_failure>(context.failure);
}

}  // namespace

}  // namespace relax_mlir

int32_t relax_rt2_derive_constant(const int64_t* derivation, const void* source, void* result,
                                  int32_t threads) {
  using namespace relax_mlir;
  if (derivation[0] == kRelaxRt2PaddedCopy) {
    const PaddedCopy copy(derivation + 1, source, result);
    return RunParallel<PaddedCopy, &PaddedCopy::Copy>(copy, copy.planes(), threads);
  }
  const Transform transform(derivation + 1, source, result);
  return RunParallel<Transform, &Transform::Apply>(transform, transform.blocks(), threads);
}
