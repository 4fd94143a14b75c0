// Native loop executor: the global function relax_mlir.repeat.
//
// Runs the iterations of Loop and Scan without Python overhead. Every iteration calls a function of
// tensors; the source of each argument is a number, see `Source`.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "errors.h"
#include "ffi_tensors.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

// Source of an argument; numbers from 0 on are results of the previous iteration.
enum Source : int64_t {
  kInvariant = -1,     // a loop invariant
  kIteration = -2,     // the iteration number, an int64 scalar
  kScanForward = -3,   // slices along the first axis of the argument
  kScanBackward = -4,  // the same in reverse order
};

bool HasType(const DLTensor& lhs, const DLTensor& rhs) {
  return lhs.ndim == rhs.ndim && lhs.dtype.code == rhs.dtype.code &&
         lhs.dtype.bits == rhs.dtype.bits && lhs.dtype.lanes == rhs.dtype.lanes &&
         std::equal(lhs.shape, lhs.shape + lhs.ndim, rhs.shape);
}

ffi::Shape WithCount(int64_t count, const DLTensor& element) {
  std::vector<int64_t> shape{count};
  shape.insert(shape.end(), element.shape, element.shape + element.ndim);
  return ffi::Shape(shape);
}

// Results of all iterations, stacked along a new first axis.
class StackedResults {
 public:
  // Of at most `limit` iterations.
  explicit StackedResults(int64_t limit) : limit_(limit) {}

  void Add(const ffi::Tensor& element) {
    const DLTensor& tensor = *element.GetDLTensorPtr();
    if (count_ == 0) {
      first_ = element;
      bytes_ = ElementCount(tensor) * ItemBytes(tensor.dtype);
    } else if (!HasType(*first_.GetDLTensorPtr(), tensor)) {
      RELAX_THROW(ValueError) << "a scan output has to have the same shape in all iterations: "
                              << "expected " << first_.shape() << ", got " << element.shape();
    }
    if (count_ == capacity_) {
      const int64_t least = kFirstBytes / std::max<int64_t>(bytes_, 1) + 1;
      Resize(std::min(limit_, std::max(2 * capacity_, least)));
    }
    if (bytes_ > 0) CopyToContiguous(tensor, Data(*whole_.GetDLTensorPtr()) + count_ * bytes_);
    ++count_;
  }

  ffi::Any Finish() {
    if (count_ == 0) return nullptr;
    if (count_ < capacity_) Resize(count_);
    return whole_;
  }

 private:
  static constexpr int64_t kFirstBytes = 1 << 14;

  void Resize(int64_t capacity) {
    const DLTensor& element = *first_.GetDLTensorPtr();
    ffi::Tensor resized = AllocateTensor(WithCount(capacity, element), element.dtype);
    if (count_ * bytes_ > 0) {
      std::memcpy(Data(*resized.GetDLTensorPtr()), Data(*whole_.GetDLTensorPtr()),
                  static_cast<size_t>(count_ * bytes_));
    }
    whole_ = std::move(resized);
    capacity_ = capacity;
  }

  int64_t limit_;
  int64_t capacity_ = 0;
  int64_t count_ = 0;
  int64_t bytes_ = 0;  // of an element
  ffi::Tensor first_;
  ffi::Tensor whole_;
};

// One argument of the body.
class Argument {
 public:
  // Iterations point to `tensor_`, so the object must not move afterwards.
  Argument(const ffi::Any& given, int64_t source, int64_t first)
      : given_(given.cast<ffi::Tensor>()), source_(source), tensor_(*given_.GetDLTensorPtr()) {
    if (source == kIteration) number_ = first;
    if (source != kScanForward && source != kScanBackward) return;
    if (tensor_.ndim == 0 || !IsContiguous(tensor_)) {
      RELAX_THROW(ValueError) << "expected row-major elements along a first axis, got "
                              << given_.shape();
    }
    length_ = tensor_.shape[0];
    --tensor_.ndim;
    ++tensor_.shape;
    if (tensor_.strides != nullptr) ++tensor_.strides;
    step_bytes_ = ElementCount(tensor_) * ItemBytes(tensor_.dtype);
  }

  int64_t source() const { return source_; }

  // Number of iterations with slices from `first` on, at most `limit`.
  int64_t Remaining(int64_t first, int64_t limit) const {
    const bool is_scanned = source_ == kScanForward || source_ == kScanBackward;
    return is_scanned ? std::min(limit, length_ - first) : limit;
  }

  DLTensor* At(int64_t step) {
    if (source_ == kIteration) {
      number_ = step;
      tensor_.data = &number_;
      tensor_.byte_offset = 0;
    } else if (source_ == kScanForward || source_ == kScanBackward) {
      const int64_t place = source_ == kScanForward ? step : length_ - 1 - step;
      tensor_.data = Data(*given_.GetDLTensorPtr()) + place * step_bytes_;
      tensor_.byte_offset = 0;
    }
    return &tensor_;
  }

  // Carries a result over to the next iteration, if it has the type of the argument.
  bool Carry(const ffi::Tensor& result) {
    if (!HasType(tensor_, *result.GetDLTensorPtr())) return false;
    given_ = result;
    tensor_ = *given_.GetDLTensorPtr();
    return true;
  }

 private:
  ffi::Tensor given_;
  int64_t source_;
  DLTensor tensor_;
  int64_t number_ = 0;
  int64_t length_ = 0;
  int64_t step_bytes_ = 0;
};

bool IsTrue(const ffi::Tensor& condition) {
  const DLTensor& tensor = *condition.GetDLTensorPtr();
  if (ElementCount(tensor) != 1 || ItemBytes(tensor.dtype) != 1) {
    RELAX_THROW(ValueError) << "the condition of a loop: expected one bool, got "
                            << DataTypeName(tensor.dtype) << " of shape " << condition.shape();
  }
  return *Data(tensor) != 0;
}

// Signals are only handled after native code returns.
constexpr auto kMaxTime = std::chrono::milliseconds(50);

// Runs iterations of `body` from number `first` on, at most `limit`, while result `condition` (if
// >= 0) is true, loop-carried results keep their types, and kMaxTime has not passed.
//
// Returns the number of iterations, whether the condition still holds, the results of the last
// iteration, and the stacked results of all iterations for each index in `stacked`.
ffi::Array<ffi::Any> Repeat(const ffi::Function& body, const ffi::Array<ffi::Any>& given,
                            const ffi::Array<int64_t>& sources, int64_t first, int64_t limit,
                            int64_t condition, const ffi::Array<int64_t>& stacked) {
  const RunningCall running;
  if (given.size() != sources.size()) {
    RELAX_THROW(ValueError) << "expected a source for each of " << given.size()
                            << " arguments, got " << sources.size();
  }
  std::vector<Argument> arguments;
  arguments.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) arguments.emplace_back(given[i], sources[i], first);
  for (const Argument& argument : arguments) limit = argument.Remaining(first, limit);
  std::vector<StackedResults> parts(stacked.size(), StackedResults(limit));
  std::vector<ffi::AnyView> views(arguments.size());

  ffi::Array<ffi::Any> results;
  int64_t steps = 0;
  bool continues = true, fits = true;
  const auto end = std::chrono::steady_clock::now() + kMaxTime;
  while (continues && fits && steps < limit) {
    if (steps > 0 && std::chrono::steady_clock::now() > end) break;
    for (size_t i = 0; i < arguments.size(); ++i) views[i] = arguments[i].At(first + steps);
    ffi::Any returned_value;
    body.CallPacked(views.data(), static_cast<int32_t>(views.size()), &returned_value);
    results = returned_value.cast<ffi::Array<ffi::Any>>();
    ++steps;
    if (condition >= 0) continues = IsTrue(results[condition].cast<ffi::Tensor>());
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].Add(results[stacked[i]].cast<ffi::Tensor>());
    }
    for (Argument& argument : arguments) {
      if (argument.source() < 0) continue;
      fits = argument.Carry(results[argument.source()].cast<ffi::Tensor>()) && fits;
    }
  }
  ffi::Array<ffi::Any> returned{steps, continues, results};
  for (StackedResults& part : parts) returned.push_back(part.Finish());
  return returned;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("relax_mlir.repeat", Repeat);
}

}  // namespace
}  // namespace relax_mlir
