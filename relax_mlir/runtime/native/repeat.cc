// A function that is called again and again with its own results: relax_mlir.repeat.
//
// It is what loops of models run in, so that a step costs no more than its body. Every step calls
// a function of tensors; where each of its arguments comes from is a number, see `Source`.
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
#include "running_call.h"
#include "tensors.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

// Where an argument comes from; numbers from 0 on are results of the step before.
enum Source : int64_t {
  kFixed = -1,     // the argument of the first step
  kNumber = -2,    // the step's number, in an int64 scalar
  kForward = -3,   // the next element along the first axis of the argument
  kBackward = -4,  // the same, from the last to the first
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

// Results of all steps next to each other.
class Gathered {
 public:
  // At most `limit` of them.
  explicit Gathered(int64_t limit) : limit_(limit) {}

  void Add(const ffi::Tensor& element) {
    const DLTensor& tensor = *element.GetDLTensorPtr();
    if (count_ == 0) {
      first_ = element;
      bytes_ = ElementCount(tensor) * ItemBytes(tensor.dtype);
    } else if (!HasType(*first_.GetDLTensorPtr(), tensor)) {
      RELAX_THROW(ValueError) << "what a loop gives has to have one shape in all steps: expected "
                              << first_.shape() << ", got " << element.shape();
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
  // The tensor of a step is read from `tensor_`, so the object must not move after that.
  Argument(const ffi::Any& given, int64_t source, int64_t first)
      : given_(given.cast<ffi::Tensor>()), source_(source), tensor_(*given_.GetDLTensorPtr()) {
    if (source == kNumber) number_ = first;
    if (source != kForward && source != kBackward) return;
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

  // How many steps it has elements for, from one on.
  int64_t Left(int64_t first, int64_t limit) const {
    const bool is_scanned = source_ == kForward || source_ == kBackward;
    return is_scanned ? std::min(limit, length_ - first) : limit;
  }

  DLTensor* At(int64_t step) {
    if (source_ == kNumber) {
      number_ = step;
      tensor_.data = &number_;
      tensor_.byte_offset = 0;
    } else if (source_ == kForward || source_ == kBackward) {
      const int64_t place = source_ == kForward ? step : length_ - 1 - step;
      tensor_.data = Data(*given_.GetDLTensorPtr()) + place * step_bytes_;
      tensor_.byte_offset = 0;
    }
    return &tensor_;
  }

  // Takes a result for the next step, if it looks as the argument of this one did.
  bool Take(const ffi::Tensor& result) {
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

// Signals wait for native code to return.
constexpr auto kMostTime = std::chrono::milliseconds(50);

// Calls `body` from step `first` on, `limit` times at most, while result `condition` is true (if
// there is such a result), its results look as the arguments did whose places they take, and no
// more time than that has passed.
//
// Returns how many steps that were, whether the condition still holds, the results of the last
// step, and those of all steps of each result in `gathered`.
ffi::Array<ffi::Any> Repeat(const ffi::Function& body, const ffi::Array<ffi::Any>& given,
                            const ffi::Array<int64_t>& sources, int64_t first, int64_t limit,
                            int64_t condition, const ffi::Array<int64_t>& gathered) {
  const RunningCall running;
  if (given.size() != sources.size()) {
    RELAX_THROW(ValueError) << "expected a source for each of " << given.size()
                            << " arguments, got " << sources.size();
  }
  std::vector<Argument> arguments;
  arguments.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) arguments.emplace_back(given[i], sources[i], first);
  for (const Argument& argument : arguments) limit = argument.Left(first, limit);
  std::vector<Gathered> parts(gathered.size(), Gathered(limit));
  std::vector<ffi::AnyView> views(arguments.size());

  ffi::Array<ffi::Any> results;
  int64_t steps = 0;
  bool goes_on = true, fits = true;
  const auto end = std::chrono::steady_clock::now() + kMostTime;
  while (goes_on && fits && steps < limit) {
    if (steps > 0 && std::chrono::steady_clock::now() > end) break;
    for (size_t i = 0; i < arguments.size(); ++i) views[i] = arguments[i].At(first + steps);
    ffi::Any made;
    body.CallPacked(views.data(), static_cast<int32_t>(views.size()), &made);
    results = made.cast<ffi::Array<ffi::Any>>();
    ++steps;
    if (condition >= 0) goes_on = IsTrue(results[condition].cast<ffi::Tensor>());
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].Add(results[gathered[i]].cast<ffi::Tensor>());
    }
    for (Argument& argument : arguments) {
      if (argument.source() < 0) continue;
      fits = argument.Take(results[argument.source()].cast<ffi::Tensor>()) && fits;
    }
  }
  ffi::Array<ffi::Any> returned{steps, goes_on, results};
  for (Gathered& part : parts) returned.push_back(part.Finish());
  return returned;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("relax_mlir.repeat", Repeat);
}

}  // namespace
}  // namespace relax_mlir
