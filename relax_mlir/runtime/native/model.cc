#include "model.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <new>
#include <utility>

#include "failure.h"
#include "guard.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

int64_t Value(Size size, const int64_t* sizes) {
  return size.kind == kStatic ? size.value : sizes[size.value];
}

}  // namespace

void Model::AddBinder(const Binder& binder) {
  const bool is_known =
      binder.argument < inputs.size() && binder.dim < inputs[binder.argument].dims.size();
  if (!is_known || binder.factor < 1) {
    RELAX_FAIL(ValueError) << Quote(name) << ": symbol " << Quote(size_names[binders.size()])
                           << ": no input dimension gives its value";
  }
  binders.push_back(binder);
}

void Model::AddCheck(const SizeCheck& check) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::min();  // of a difference
  CheckSize(check.lhs, "check", kAny);
  CheckSize(check.rhs, "check", kAny);
  checks.push_back(check);
}

void Model::CheckSize(Size size, const std::string& what, int64_t least) const {
  const auto value = static_cast<size_t>(size.value);
  const bool is_known = (size.kind == kStatic && size.value >= least) ||
                        (size.kind == kSymbol && value < symbol_count) ||
                        (size.kind == kDerived && value < size_names.size());
  if (!is_known) {
    RELAX_FAIL(ValueError) << Quote(name) << ": " << what << ": no such size: kind " << size.kind
                            << ", value " << size.value;
  }
  if (size.kind == kDerived && value >= symbol_count && shapes == nullptr) {
    RELAX_FAIL(ValueError) << Quote(name) << ": " << what
                            << ": a derived size needs a shape function";
  }
}

std::string Model::Where(size_t argument) const {
  if (argument < inputs.size()) {
    return Quote(name) + ": argument " + std::to_string(argument) + " " +
           Quote(inputs[argument].name);
  }
  const size_t output = argument - inputs.size();
  return Quote(name) + ": output " + std::to_string(output) + " " + Quote(outputs[output].name);
}

void Model::CheckTensor(const DLTensor& tensor, size_t argument) const {
  const Parameter& parameter = ParameterOf(argument);
  if (tensor.device.device_type != kDLCPU && tensor.device.device_type != kDLCUDAHost) {
    RELAX_FAIL(TypeError) << Where(argument)
                          << ": expected a tensor in CPU memory, got one on device type "
                          << static_cast<int>(tensor.device.device_type);
  }
  const DLDataType want = parameter.dtype;
  const DLDataType got = tensor.dtype;
  if (got.code != want.code || got.bits != want.bits || got.lanes != want.lanes) {
    RELAX_FAIL(TypeError) << Where(argument) << ": expected element type " << DataTypeName(want)
                          << ", got " << DataTypeName(got);
  }
  if (tensor.ndim != static_cast<int>(parameter.dims.size())) {
    RELAX_FAIL(ValueError) << Where(argument) << ": expected rank " << parameter.dims.size()
                           << ", got " << static_cast<int64_t>(tensor.ndim);
  }
}

void Model::BindSizes(const DLTensor* const* tensors, int64_t* sizes) const {
  for (size_t s = 0; s < binders.size(); ++s) {
    sizes[s] = Solve(binders[s], *tensors[binders[s].argument]);
  }
  // Checked before the shape function, whose arithmetic may rely on it.
  for (size_t i = 0; i < inputs.size(); ++i) CheckDims(i, *tensors[i], sizes, false);
  if (shapes != nullptr) shapes(sizes);
  for (size_t i = 0; i < inputs.size(); ++i) CheckDims(i, *tensors[i], sizes, true);
  for (const SizeCheck& check : checks) CheckSizes(check, sizes);
}

int64_t Model::OutputShape(size_t output, const int64_t* sizes, int64_t* shape) const {
  const Parameter& parameter = outputs[output];
  int64_t bytes = ItemBytes(parameter.dtype);
  bool fits = true;
  for (size_t d = 0; d < parameter.dims.size(); ++d) {
    shape[d] = Value(parameter.dims[d], sizes);
    fits = fits && shape[d] >= 0 && !__builtin_mul_overflow(bytes, shape[d], &bytes);
  }
  if (!fits) {
    std::string text;
    for (size_t d = 0; d < parameter.dims.size(); ++d) {
      text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
    }
    RELAX_FAIL(ValueError) << Quote(name) << ": output " << Quote(parameter.name) << ": the shape ["
                           << text << "] is negative or too large";
  }
  return bytes;
}

int32_t Model::Run(const DLTensor* const* tensors, void* const* allocated, const int64_t* sizes,
                   relax_rt2_context* context) {
  ShortVector<void*, 32> buffers(inputs.size() + outputs.size() + constants.size());
  std::vector<Temporary> temporaries;  // empty, and unallocated, in the common case
  void** output_buffers = buffers.data() + inputs.size();
  if (allocated == nullptr) {
    UseOutputs(tensors, sizes, output_buffers, &temporaries);
  } else {
    std::copy(allocated, allocated + outputs.size(), output_buffers);
  }
  const size_t given = allocated == nullptr ? outputs.size() : 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    buffers[i] = UseInput(*tensors[i], tensors + inputs.size(), given, &temporaries);
  }
  std::copy(constants.begin(), constants.end(), output_buffers + outputs.size());
  ArenaList::Arena taken = TakeArena(sizes);
  int32_t status = 0;
  {
    const ContextScope scope(context);
    status = main(buffers.data(), sizes, taken.memory.get(), context);
  }
  if (taken.bytes > 0) arenas_.Give(std::move(taken));
  if (status != 0 || context->failure != kRelaxRt2Ok) return status;
  for (const Temporary& temporary : temporaries) {
    if (temporary.output != nullptr) {
      CopyFromContiguous(temporary.memory.get(), *temporary.output);
    }
  }
  return status;
}

void Model::CheckFailure(const relax_rt2_context& context) const {
  switch (context.failure) {
    case kRelaxRt2Ok: return;
    case kRelaxRt2OutOfMemory:
      RELAX_FAIL(MemoryError) << Quote(name) << ": out of memory for the scratch of a kernel";
    case kRelaxRt2OutOfBounds:
      RELAX_FAIL(RuntimeError) << Quote(name) << ": " << TakeGuardReport();
    default: RELAX_FAIL(RuntimeError) << Quote(name) << ": a kernel threw a C++ exception";
  }
}

std::string Model::Describe(Size size) const {
  if (size.kind == kStatic) return std::to_string(size.value);
  return Quote(size_names[static_cast<size_t>(size.value)]);
}

void Model::FailSize(size_t argument, size_t dim, int64_t expected, int64_t got) const {
  const Parameter& parameter = ParameterOf(argument);
  const Size size = parameter.dims[dim];
  std::string symbol;
  std::string reason;
  if (size.kind != kStatic) symbol = " (" + Describe(size) + ")";
  if (size.kind == kSymbol) {
    const Binder binder = binders[static_cast<size_t>(size.value)];
    reason = " (bound by argument " + Quote(inputs[binder.argument].name) + " dimension " +
             std::to_string(binder.dim) + ")";
  }
  RELAX_FAIL(ValueError) << Where(argument) << ": dimension " << dim << symbol << ": expected "
                          << expected << reason << ", got " << got;
}

// The value of a symbol; throws an error that names the dimension that binds it.
int64_t Model::Solve(const Binder& binder, const DLTensor& tensor) const {
  const int64_t got = tensor.shape[binder.dim];
  const int64_t value = (got - binder.offset) / binder.factor;
  if (value < 0 || value * binder.factor + binder.offset != got) {
    RELAX_FAIL(ValueError) << Where(binder.argument) << ": dimension " << binder.dim
                            << ": expected " << Describe(inputs[binder.argument].dims[binder.dim])
                            << ", got " << got;
  }
  return value;
}

void Model::CheckDims(size_t argument, const DLTensor& tensor, const int64_t* sizes,
               bool derived) const {
  const Parameter& parameter = ParameterOf(argument);
  for (size_t d = 0; d < parameter.dims.size(); ++d) {
    if (parameter.dims[d].kind == kDerived && !derived) continue;
    const int64_t expected = Value(parameter.dims[d], sizes);
    if (tensor.shape[d] != expected) FailSize(argument, d, expected, tensor.shape[d]);
  }
}

void Model::CheckSizes(const SizeCheck& check, const int64_t* sizes) const {
  const int64_t lhs = Value(check.lhs, sizes);
  const int64_t rhs = Value(check.rhs, sizes);
  if (check.relation == kEqual ? lhs == rhs : lhs >= rhs) return;
  RELAX_FAIL(ValueError) << Quote(name) << ": sizes do not fit: expected "
                          << Describe(check.lhs)
                          << (check.relation == kEqual ? " to be " : " to be at least ")
                          << Describe(check.rhs) << ", got " << lhs << " and " << rhs
                          << Origins(check, sizes);
}

// Text that names the dimensions that bind the symbols of a constraint.
std::string Model::Origins(const SizeCheck& check, const int64_t* sizes) const {
  std::string text;
  for (size_t s = 0; s < binders.size(); ++s) {
    if (!Mentions(check.lhs, s) && !Mentions(check.rhs, s)) continue;
    const Binder& binder = binders[s];
    text += (text.empty() ? ", where " : " and ") + Quote(size_names[s]) + " is " +
            std::to_string(sizes[s]) + " by dimension " + std::to_string(binder.dim) +
            " of argument " + std::to_string(binder.argument) + " " +
            Quote(inputs[binder.argument].name);
  }
  return text;
}

// Whether the expression of a size contains a symbol.
bool Model::Mentions(Size size, size_t symbol) const {
  if (size.kind == kStatic) return false;
  const std::string text = size_names[static_cast<size_t>(size.value)];
  const std::string name = size_names[symbol];
  const auto is_part = [&text](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
                                text[at] == '_' || text[at] == '.');
  };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + name.size())) return true;
  }
  return false;
}

// Validates outputs of the caller, and chooses the buffers that the program writes to.
void Model::UseOutputs(const DLTensor* const* tensors, const int64_t* sizes, void** buffers,
                       std::vector<Temporary>* temporaries) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t argument = inputs.size() + i;
    const DLTensor& tensor = *tensors[argument];
    CheckDims(argument, tensor, sizes, true);
    for (size_t other = inputs.size(); other < argument; ++other) {
      if (Overlaps(tensor, *tensors[other])) {
        RELAX_FAIL(ValueError) << Where(argument) << ": shares memory with output "
                                << other - inputs.size();
      }
    }
    if (OverlapsItself(tensor)) {
      RELAX_FAIL(ValueError) << Where(argument) << ": two of its elements share memory";
    }
    buffers[i] = Data(tensor);
    if (IsContiguous(tensor) && IsElementAligned(tensor)) continue;
    temporaries->push_back(
        {AllocateAligned(ElementCount(tensor) * ItemBytes(tensor.dtype)), &tensor});
    buffers[i] = temporaries->back().memory.get();
  }
}

// The input's memory if the program can read it in place, else a copy. An input that aliases an
// output is copied, since the program may write the output early.
void* Model::UseInput(const DLTensor& tensor, const DLTensor* const* output_tensors,
                       size_t output_count, std::vector<Temporary>* temporaries) {
  bool usable = IsContiguous(tensor) && IsElementAligned(tensor);
  for (size_t i = 0; usable && i < output_count; ++i) {
    usable = !RangesMeet(tensor, *output_tensors[i]);
  }
  if (usable) return Data(tensor);
  temporaries->push_back(
      {AllocateAligned(ElementCount(tensor) * ItemBytes(tensor.dtype)), nullptr});
  CopyToContiguous(tensor, temporaries->back().memory.get());
  return temporaries->back().memory.get();
}

ArenaList::Arena Model::TakeArena(const int64_t* sizes) {
  const int64_t bytes = Value(arena, sizes);
  if (bytes < 0) {
    RELAX_FAIL(ValueError) << Quote(name)
                           << ": the sizes are too large: intermediate results need more bytes "
                              "than there are addresses";
  }
  if (bytes == 0) return {};
  try {
    return arenas_.Take(bytes);
  } catch (const std::bad_alloc&) {
    RELAX_FAIL(MemoryError) << Quote(name) << ": out of memory for " << bytes
                            << " bytes of intermediate results";
  }
}

}  // namespace relax_mlir
