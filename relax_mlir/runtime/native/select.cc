// Operators with data-dependent output shapes: the global functions relax_mlir.compress, nonzero,
// unique and non_max_suppression.
//
// Source: ONNX Compress-11, NonZero-13, Unique-11 and NonMaxSuppression-11. Elements compare as in elements.h:
// all NaNs are equal, and the greatest element.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <vector>

#include "elements.h"
#include "errors.h"
#include "ffi_tensors.h"
#include "interrupts.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

constexpr DLDataType kIndex{kDLInt, 64, 1};

// A tensor as slices along an axis; a slice is `outer` runs of `inner` elements.
class Slices {
 public:
  Slices(const char* function, const DLTensor& x, const ffi::Optional<int64_t>& axis)
      : element_(x.dtype),
        item_(static_cast<size_t>(ItemBytes(x.dtype))),
        shape_(x.shape, x.shape + x.ndim),
        axis_(0) {
    if (x.dtype.lanes != 1 || x.dtype.bits > 64 || x.dtype.code == kDLComplex) {
      RELAX_THROW(TypeError) << function << ": cannot compare elements of type "
                             << DataTypeName(x.dtype);
    }
    if (axis.has_value()) {
      axis_ = *axis < 0 ? *axis + x.ndim : *axis;
      if (axis_ < 0 || axis_ >= x.ndim) {
        RELAX_THROW(ValueError) << function << ": axis " << *axis << ": expected one of " << x.ndim
                                << " dimensions";
      }
    } else {
      shape_ = {ElementCount(x)};
    }
    for (int64_t i = 0; i < axis_; ++i) outer_ *= shape_[static_cast<size_t>(i)];
    for (size_t i = static_cast<size_t>(axis_) + 1; i < shape_.size(); ++i) inner_ *= shape_[i];
    data_.resize(item_ * static_cast<size_t>(std::max<int64_t>(ElementCount(x), 1)));
    CopyToContiguous(x, data_.data());
  }

  int64_t count() const { return shape_[static_cast<size_t>(axis_)]; }

  // The order-preserving keys of the elements, slice by slice.
  std::vector<uint64_t> Keys() const {
    std::vector<uint64_t> keys;
    keys.reserve(static_cast<size_t>(outer_ * count() * inner_));
    for (int64_t slice = 0; slice < count(); ++slice) {
      for (int64_t o = 0; o < outer_; ++o) {
        const char* at = At(o, slice);
        for (int64_t i = 0; i < inner_; ++i, at += item_) {
          keys.push_back(element_.Key(element_.Read(at)));
        }
      }
    }
    return keys;
  }

  int64_t width() const { return outer_ * inner_; }

  // Gathers slices by index.
  ffi::Tensor Take(const std::vector<int64_t>& chosen) const {
    std::vector<int64_t> shape = shape_;
    const auto rows = static_cast<int64_t>(chosen.size());
    shape[static_cast<size_t>(axis_)] = rows;
    ffi::Tensor result = AllocateTensor(ffi::ShapeView(shape.data(), shape.size()), element_.dtype);
    char* to = static_cast<char*>(result.data_ptr());
    const size_t run = Offset(inner_);
    for (int64_t o = 0; o < outer_ && run > 0; ++o) {
      for (const int64_t row : chosen) {
        std::memcpy(to, At(o, row), run);
        to += run;
      }
    }
    return result;
  }

 private:
  size_t Offset(int64_t elements) const { return item_ * static_cast<size_t>(elements); }
  const char* At(int64_t outer, int64_t slice) const {
    return data_.data() + Offset((outer * count() + slice) * inner_);
  }

  Element element_;
  size_t item_;
  std::vector<int64_t> shape_;
  int64_t axis_;
  int64_t outer_ = 1;
  int64_t inner_ = 1;
  std::vector<char> data_;
};

ffi::Tensor Indices(const std::vector<int64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  ffi::Tensor result = AllocateTensor(ffi::ShapeView(&count, 1), kIndex);
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(result.data_ptr()));
  return result;
}

// The slices along an axis, or elements without one, that the condition selects. The condition may
// be shorter than the axis.
ffi::Tensor Compress(DLTensor* x, DLTensor* condition, const ffi::Optional<int64_t>& axis) {
  const RunningCall running;
  const Slices slices("compress", *x, axis);
  if (condition->ndim != 1 || condition->dtype.code != kDLBool) {
    RELAX_THROW(TypeError) << "compress: condition: expected a vector of bool, got "
                           << condition->ndim << " dimensions of "
                           << DataTypeName(condition->dtype);
  }
  const int64_t count = condition->shape[0];
  std::vector<char> holds(static_cast<size_t>(std::max<int64_t>(count, 1)));
  CopyToContiguous(*condition, holds.data());
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    if (holds[static_cast<size_t>(i)] == 0) continue;
    if (i >= slices.count()) {
      RELAX_THROW(ValueError) << "compress: condition: expected no more than " << slices.count()
                              << " elements, got one that holds at " << i;
    }
    chosen.push_back(i);
  }
  return slices.Take(chosen);
}

// The unique slices along an axis, or elements without one; the first index of each; the inverse
// indices; and the counts. Sorted, or in the order of first occurrence.
ffi::Array<ffi::Tensor> Unique(DLTensor* x, const ffi::Optional<int64_t>& axis, bool sorted) {
  const RunningCall running;
  const Slices slices("unique", *x, axis);
  const std::vector<uint64_t> keys = slices.Keys();
  const int64_t width = slices.width();
  const auto row = [&](int64_t i) { return keys.data() + i * width; };
  std::vector<int64_t> order(static_cast<size_t>(slices.count()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const auto [lhs, rhs] = std::mismatch(row(a), row(a) + width, row(b));
    return lhs != row(a) + width ? *lhs < *rhs : a < b;
  });

  std::vector<int64_t> first;
  std::vector<int64_t> counts;
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !std::equal(row(order[i]), row(order[i]) + width, row(order[i - 1]))) {
      first.push_back(order[i]);
      counts.push_back(0);
    }
    ++counts.back();
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(first.size()) - 1;
  }
  if (!sorted) {
    std::vector<size_t> groups(first.size());
    std::iota(groups.begin(), groups.end(), size_t{0});
    std::sort(groups.begin(), groups.end(),
              [&](size_t a, size_t b) { return first[a] < first[b]; });
    std::vector<int64_t> place(first.size());
    std::vector<int64_t> met_first;
    std::vector<int64_t> met_counts;
    for (const size_t group : groups) {
      place[group] = static_cast<int64_t>(met_first.size());
      met_first.push_back(first[group]);
      met_counts.push_back(counts[group]);
    }
    for (int64_t& group : inverse) group = place[static_cast<size_t>(group)];
    first.swap(met_first);
    counts.swap(met_counts);
  }
  return {slices.Take(first), Indices(first), Indices(inverse), Indices(counts)};
}

// A box with ordered corners.
struct Box {
  float top, left, bottom, right;

  Box(const float* from, bool is_centre) {
    if (is_centre) {
      top = from[1] - from[3] / 2;
      bottom = from[1] + from[3] / 2;
      left = from[0] - from[2] / 2;
      right = from[0] + from[2] / 2;
    } else {
      std::tie(top, bottom) = std::minmax({from[0], from[2]});
      std::tie(left, right) = std::minmax({from[1], from[3]});
    }
  }

  float Area() const { return (bottom - top) * (right - left); }

  bool Overlaps(const Box& other, float threshold) const {
    const float height = std::min(bottom, other.bottom) - std::max(top, other.top);
    const float width = std::min(right, other.right) - std::max(left, other.left);
    if (!(height > 0 && width > 0)) return false;
    const float shared = height * width;
    const float area = Area();
    const float other_area = other.Area();
    if (!(area > 0 && other_area > 0)) return false;
    return shared / (area + other_area - shared) > threshold;
  }
};

std::vector<float> Floats(const char* what, const DLTensor& x, int rank) {
  if (x.ndim != rank || x.dtype.code != kDLFloat || x.dtype.bits != 32) {
    RELAX_THROW(TypeError) << "non_max_suppression: " << what << ": expected " << rank
                           << " dimensions of float32, got " << x.ndim << " of "
                           << DataTypeName(x.dtype);
  }
  std::vector<float> values(static_cast<size_t>(std::max<int64_t>(ElementCount(x), 1)));
  CopyToContiguous(x, values.data());
  return values;
}

// A candidate box, ordered by score; among equal scores the first is the greatest.
struct Candidate {
  float score;
  int64_t index;

  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : index > other.index;
  }
};

// The candidates of one class, as a heap, since few may be needed.
std::vector<Candidate> Candidates(const float* scores, int64_t count,
                                  const ffi::Optional<double>& threshold) {
  std::vector<Candidate> found;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(scores[i])) continue;
    if (!threshold.has_value() || scores[i] > static_cast<float>(*threshold)) {
      found.push_back({scores[i], i});
    }
  }
  std::make_heap(found.begin(), found.end());
  return found;
}

// Non-maximum suppression per batch and class: int64 [n, 3], the indices of batch, class and box.
ffi::Tensor NonMaxSuppression(DLTensor* boxes, DLTensor* scores, int64_t most,
                              double overlap, const ffi::Optional<double>& least,
                              bool is_centre) {
  const RunningCall running;
  const std::vector<float> sides = Floats("boxes", *boxes, 3);
  const std::vector<float> values = Floats("scores", *scores, 3);
  const int64_t batches = scores->shape[0];
  const int64_t classes = scores->shape[1];
  const int64_t count = scores->shape[2];
  if (boxes->shape[0] != batches || boxes->shape[1] != count || boxes->shape[2] != 4) {
    RELAX_THROW(ValueError) << "non_max_suppression: boxes: expected [" << batches << ", " << count
                            << ", 4], got "
                            << ffi::Shape(boxes->shape, boxes->shape + boxes->ndim);
  }
  std::vector<int64_t> found;
  std::vector<Box> kept;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t type = 0; type < classes; ++type) {
      kept.clear();
      const float* own = values.data() + (batch * classes + type) * count;
      std::vector<Candidate> left = Candidates(own, count, least);
      while (!left.empty() && static_cast<int64_t>(kept.size()) < most) {
        ThrowIfInterrupted();
        std::pop_heap(left.begin(), left.end());
        const int64_t i = left.back().index;
        left.pop_back();
        const Box box(sides.data() + (batch * count + i) * 4, is_centre);
        const auto overlaps = [&](const Box& other) {
          return box.Overlaps(other, static_cast<float>(overlap));
        };
        if (std::any_of(kept.begin(), kept.end(), overlaps)) continue;
        kept.push_back(box);
        found.insert(found.end(), {batch, type, i});
      }
    }
  }
  const int64_t shape[] = {static_cast<int64_t>(found.size()) / 3, 3};
  ffi::Tensor result = AllocateTensor(ffi::ShapeView(shape, 2), kIndex);
  std::copy(found.begin(), found.end(), static_cast<int64_t*>(result.data_ptr()));
  return result;
}

// Indices of the non-zero elements, int64 [rank, count] in row-major order; [0, count] for scalars.
ffi::Tensor Nonzero(DLTensor* tensor) {
  const RunningCall running;
  const DLTensor& x = *tensor;
  DLDataType part = x.dtype;
  const int parts = part.code == kDLComplex ? 2 : 1;
  if (parts == 2) part = {kDLFloat, static_cast<uint8_t>(part.bits / 2), 1};
  const Element element(part);
  const int64_t item = ItemBytes(part);
  const int64_t count = ElementCount(x);

  std::vector<int64_t> found;  // ndim numbers for each element
  std::vector<int64_t> index(static_cast<size_t>(x.ndim), 0);
  int64_t found_count = 0;
  for (int64_t n = 0; n < count; ++n) {
    const char* at = Data(x);
    for (int i = 0; i < x.ndim; ++i) {
      at += index[static_cast<size_t>(i)] * ElementStride(x, i) * item * parts;
    }
    bool nonzero = element.IsNonzero(element.Read(at));
    if (parts == 2) nonzero = nonzero || element.IsNonzero(element.Read(at + item));
    if (nonzero) {
      found.insert(found.end(), index.begin(), index.end());
      ++found_count;
    }
    for (int i = x.ndim - 1; i >= 0; --i) {
      if (++index[static_cast<size_t>(i)] < x.shape[i]) break;
      index[static_cast<size_t>(i)] = 0;
    }
  }
  const int64_t shape[] = {x.ndim, found_count};
  ffi::Tensor result = AllocateTensor(ffi::ShapeView(shape, 2), DLDataType{kDLInt, 64, 1});
  auto* out = static_cast<int64_t*>(result.data_ptr());
  for (int64_t i = 0; i < x.ndim; ++i) {
    for (int64_t n = 0; n < found_count; ++n) {
      out[i * found_count + n] = found[static_cast<size_t>(n * x.ndim + i)];
    }
  }
  return result;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("relax_mlir.compress", Compress)
      .def("relax_mlir.nonzero", Nonzero)
      .def("relax_mlir.unique", Unique)
      .def("relax_mlir.non_max_suppression", NonMaxSuppression);
}

}  // namespace
}  // namespace relax_mlir
