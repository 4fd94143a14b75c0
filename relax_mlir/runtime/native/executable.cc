// Wrapper of a compiled program: validates and converts arguments, allocates, calls.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "arena_list.h"
#include "errors.h"
#include "guard.h"
#include "running_call.h"
#include "tensors.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

enum SizeKind : int64_t {
  kStatic = 0,   // the value itself
  kSymbol = 1,   // symbol number `value`
  kDerived = 2,  // sizes[value], computed by the shape function
};

struct Size {
  int64_t kind;
  int64_t value;
};

struct Parameter {
  std::string name;
  DLDataType dtype;
  std::vector<Size> dims;
};

// The input dimension that binds a symbol: its size is factor * symbol + offset.
struct Binder {
  size_t argument;
  size_t dim;
  int64_t factor;
  int64_t offset;
};

enum Relation : int64_t { kEqual = 0, kAtLeast = 1 };

// A constraint on the sizes of a call.
struct SizeCheck {
  Size lhs;
  Relation relation;
  Size rhs;
};

// Vector with inline storage, to avoid heap allocations except for programs with many weights.
template <typename T, size_t kInline>
class ShortVector {
 public:
  explicit ShortVector(size_t size) {
    if (size > kInline) heap_.reset(new T[size]);
  }
  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  T& operator[](size_t i) { return data()[i]; }

 private:
  std::array<T, kInline> inline_;
  std::unique_ptr<T[]> heap_;
};

class Executable {
 public:
  using ParameterSpec = ffi::Tuple<ffi::String, ffi::String, ffi::Array<int64_t>>;

  relax_rt2_main main = nullptr;
  relax_rt2_shapes shapes = nullptr;
  std::string name;
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<std::string> size_names;  // the symbols, then the derived sizes
  std::vector<Binder> binders;          // of each symbol
  std::vector<SizeCheck> checks;
  Size arena{kStatic, 0};
  std::vector<void*> constants;
  int32_t threads = 1;
  ffi::Any keep_alive;
  relax_rt2_profile* profile = nullptr;
  size_t symbol_count = 0;

  void Call(ffi::PackedArgs args, ffi::Any* result) {
    const size_t count = static_cast<size_t>(args.size());
    const bool has_outputs = count == inputs.size() + outputs.size();
    if (!has_outputs && count != inputs.size()) FailCount(count);

    ShortVector<int64_t, 16> sizes(size_names.size());
    ShortVector<void*, 32> buffers(inputs.size() + outputs.size() + constants.size());
    ShortVector<const DLTensor*, 16> tensors(count);
    for (size_t i = 0; i < count; ++i) tensors[i] = GetTensor(args[i], i);
    BindSizes(tensors.data(), sizes.data());

    std::vector<Temporary> temporaries;  // empty, and unallocated, in the common case
    ffi::Array<ffi::Any> results;
    results.reserve(static_cast<int64_t>(outputs.size()));
    void** output_buffers = buffers.data() + inputs.size();
    if (has_outputs) {
      UseOutputs(tensors.data(), sizes.data(), output_buffers, &temporaries);
      for (size_t i = inputs.size(); i < count; ++i) results.push_back(Result(args[i]));
    } else {
      for (size_t i = 0; i < outputs.size(); ++i) {
        ffi::Tensor tensor = AllocateOutput(outputs[i], sizes.data());
        output_buffers[i] = tensor.data_ptr();
        results.push_back(std::move(tensor));
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      buffers[i] = UseInput(*tensors[i], tensors.data() + inputs.size(), count - inputs.size(),
                            &temporaries);
    }
    std::copy(constants.begin(), constants.end(), output_buffers + outputs.size());
    Run(buffers.data(), sizes.data());
    for (const Temporary& temporary : temporaries) {
      if (temporary.output != nullptr)
        CopyFromContiguous(temporary.memory.get(), *temporary.output);
    }
    *result = std::move(results);
  }

  // Four numbers per symbol: argument, dimension, factor, offset.
  void ParseBinders(const ffi::Array<int64_t>& numbers) {
    for (size_t i = 0; i + 4 <= numbers.size(); i += 4) {
      const auto argument = static_cast<size_t>(numbers[i]);
      const auto dim = static_cast<size_t>(numbers[i + 1]);
      const bool is_known = argument < inputs.size() && dim < inputs[argument].dims.size();
      if (!is_known || numbers[i + 2] < 1) {
        RELAX_THROW(ValueError) << Quote(name) << ": symbol " << Quote(size_names[i / 4])
                                << ": no input dimension gives its value";
      }
      binders.push_back({argument, dim, numbers[i + 2], numbers[i + 3]});
    }
  }

  // Five numbers per constraint: kind and value of the left side, relation, kind and value of the
  // right side.
  void ParseChecks(const ffi::Array<int64_t>& numbers) {
    for (size_t i = 0; i + 5 <= numbers.size(); i += 5) {
      const SizeCheck check{{numbers[i], numbers[i + 1]},
                            numbers[i + 2] == kEqual ? kEqual : kAtLeast,
                            {numbers[i + 3], numbers[i + 4]}};
      constexpr int64_t kAny = std::numeric_limits<int64_t>::min();  // of a difference
      Check(check.lhs, "check", kAny);
      Check(check.rhs, "check", kAny);
      checks.push_back(check);
    }
  }

  void Check(Size size, const std::string& what, int64_t least = 0) const {
    const auto value = static_cast<size_t>(size.value);
    const bool is_known = (size.kind == kStatic && size.value >= least) ||
                          (size.kind == kSymbol && value < symbol_count) ||
                          (size.kind == kDerived && value < size_names.size());
    if (!is_known) {
      RELAX_THROW(ValueError) << Quote(name) << ": " << what << ": no such size: kind " << size.kind
                              << ", value " << size.value;
    }
    if (size.kind == kDerived && value >= symbol_count && shapes == nullptr) {
      RELAX_THROW(ValueError) << Quote(name) << ": " << what
                              << ": a derived size needs a shape function";
    }
  }

  std::vector<Parameter> Parse(const ffi::Array<ParameterSpec>& specs, const char* kind) const {
    std::vector<Parameter> parameters;
    for (const ParameterSpec& spec : specs) {
      const ffi::Array<int64_t> dims = spec.get<2>();
      Parameter parameter{spec.get<0>(), ParseDataType(spec.get<1>()), {}};
      if (dims.size() % 2 != 0) {
        RELAX_THROW(ValueError) << Quote(name) << ": " << kind << " " << Quote(parameter.name)
                                << ": dimensions are pairs of a kind and a value";
      }
      for (size_t d = 0; d < dims.size(); d += 2) {
        parameter.dims.push_back({dims[d], dims[d + 1]});
        Check(parameter.dims.back(), std::string(kind) + " " + Quote(parameter.name));
      }
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

 private:
  // A contiguous, aligned copy of an argument; copied back for outputs.
  struct Temporary {
    AlignedMemory memory;
    const DLTensor* output;
  };

  static std::string Quote(const std::string& text) { return "`" + text + "`"; }

  std::string Where(size_t argument) const {
    if (argument < inputs.size()) {
      return Quote(name) + ": argument " + std::to_string(argument) + " " +
             Quote(inputs[argument].name);
    }
    const size_t output = argument - inputs.size();
    return Quote(name) + ": output " + std::to_string(output) + " " + Quote(outputs[output].name);
  }

  [[noreturn]] void FailCount(size_t count) const {
    RELAX_THROW(TypeError) << Quote(name) << ": expected " << inputs.size() << " arguments, or "
                           << inputs.size() + outputs.size() << " with outputs, got " << count;
  }

  [[noreturn]] void FailSize(size_t argument, size_t dim, int64_t expected, int64_t got) const {
    const Parameter& parameter =
        argument < inputs.size() ? inputs[argument] : outputs[argument - inputs.size()];
    const Size size = parameter.dims[dim];
    std::string symbol;
    std::string reason;
    if (size.kind != kStatic) symbol = " (" + Describe(size) + ")";
    if (size.kind == kSymbol) {
      const Binder binder = binders[static_cast<size_t>(size.value)];
      reason = " (bound by argument " + Quote(inputs[binder.argument].name) + " dimension " +
               std::to_string(binder.dim) + ")";
    }
    RELAX_THROW(ValueError) << Where(argument) << ": dimension " << dim << symbol << ": expected "
                            << expected << reason << ", got " << got;
  }

  // The tensor of an argument, validated for device, type and rank.
  const DLTensor* GetTensor(ffi::AnyView arg, size_t i) const {
    const Parameter& parameter = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    const std::optional<DLTensor*> found = arg.try_cast<DLTensor*>();
    if (!found || *found == nullptr) {
      RELAX_THROW(TypeError) << Where(i) << ": expected a tensor, got " << arg.GetTypeKey();
    }
    const DLTensor* tensor = *found;
    if (tensor->device.device_type != kDLCPU && tensor->device.device_type != kDLCUDAHost) {
      RELAX_THROW(TypeError) << Where(i) << ": expected a tensor in CPU memory, got one on device"
                             << " type " << tensor->device.device_type;
    }
    const DLDataType want = parameter.dtype;
    const DLDataType got = tensor->dtype;
    if (got.code != want.code || got.bits != want.bits || got.lanes != want.lanes) {
      RELAX_THROW(TypeError) << Where(i) << ": expected element type " << DataTypeName(want)
                             << ", got " << DataTypeName(got);
    }
    if (tensor->ndim != static_cast<int>(parameter.dims.size())) {
      RELAX_THROW(ValueError) << Where(i) << ": expected rank " << parameter.dims.size() << ", got "
                              << tensor->ndim;
    }
    return tensor;
  }

  static int64_t Value(Size size, const int64_t* sizes) {
    return size.kind == kStatic ? size.value : sizes[size.value];
  }

  // The expression of a size, as text.
  std::string Describe(Size size) const {
    if (size.kind == kStatic) return std::to_string(size.value);
    return Quote(size_names[static_cast<size_t>(size.value)]);
  }

  // The value of a symbol; throws an error that names the dimension that binds it.
  int64_t Solve(const Binder& binder, const DLTensor& tensor) const {
    const int64_t got = tensor.shape[binder.dim];
    const int64_t value = (got - binder.offset) / binder.factor;
    if (value < 0 || value * binder.factor + binder.offset != got) {
      RELAX_THROW(ValueError) << Where(binder.argument) << ": dimension " << binder.dim
                              << ": expected " << Describe(inputs[binder.argument].dims[binder.dim])
                              << ", got " << got;
    }
    return value;
  }

  // Fills `sizes` and checks every input dimension.
  void BindSizes(const DLTensor* const* tensors, int64_t* sizes) const {
    for (size_t s = 0; s < binders.size(); ++s) {
      sizes[s] = Solve(binders[s], *tensors[binders[s].argument]);
    }
    // Checked before the shape function, whose arithmetic may rely on it.
    for (size_t i = 0; i < inputs.size(); ++i) CheckDims(i, *tensors[i], sizes, false);
    if (shapes != nullptr) shapes(sizes);
    for (size_t i = 0; i < inputs.size(); ++i) CheckDims(i, *tensors[i], sizes, true);
    for (const SizeCheck& check : checks) CheckSizes(check, sizes);
  }

  void CheckSizes(const SizeCheck& check, const int64_t* sizes) const {
    const int64_t lhs = Value(check.lhs, sizes);
    const int64_t rhs = Value(check.rhs, sizes);
    if (check.relation == kEqual ? lhs == rhs : lhs >= rhs) return;
    RELAX_THROW(ValueError) << Quote(name) << ": sizes do not fit: expected "
                            << Describe(check.lhs)
                            << (check.relation == kEqual ? " to be " : " to be at least ")
                            << Describe(check.rhs) << ", got " << lhs << " and " << rhs
                            << Origins(check, sizes);
  }

  // Text that names the dimensions that bind the symbols of a constraint.
  std::string Origins(const SizeCheck& check, const int64_t* sizes) const {
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
  bool Mentions(Size size, size_t symbol) const {
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

  void CheckDims(size_t argument, const DLTensor& tensor, const int64_t* sizes,
                 bool derived) const {
    const Parameter& parameter =
        argument < inputs.size() ? inputs[argument] : outputs[argument - inputs.size()];
    for (size_t d = 0; d < parameter.dims.size(); ++d) {
      if (parameter.dims[d].kind == kDerived && !derived) continue;
      const int64_t expected = Value(parameter.dims[d], sizes);
      if (tensor.shape[d] != expected) FailSize(argument, d, expected, tensor.shape[d]);
    }
  }

  ffi::Tensor AllocateOutput(const Parameter& output, const int64_t* sizes) const {
    ShortVector<int64_t, 8> shape(output.dims.size());
    int64_t bytes = ItemBytes(output.dtype);
    bool fits = true;
    for (size_t d = 0; d < output.dims.size(); ++d) {
      shape[d] = Value(output.dims[d], sizes);
      fits = fits && shape[d] >= 0 && !__builtin_mul_overflow(bytes, shape[d], &bytes);
    }
    if (!fits) {
      RELAX_THROW(ValueError) << Quote(name) << ": output " << Quote(output.name) << ": the shape "
                              << ffi::Shape(shape.data(), shape.data() + output.dims.size())
                              << " is negative or too large";
    }
    try {
      return AllocateTensor(ffi::ShapeView(shape.data(), output.dims.size()), output.dtype);
    } catch (const std::bad_alloc&) {
      RELAX_THROW(MemoryError) << Quote(name) << ": output " << Quote(output.name)
                               << ": out of memory for " << bytes << " bytes";
    }
  }

  // Validates outputs of the caller, and chooses the buffers that the program writes to.
  void UseOutputs(const DLTensor* const* tensors, const int64_t* sizes, void** buffers,
                  std::vector<Temporary>* temporaries) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t argument = inputs.size() + i;
      const DLTensor& tensor = *tensors[argument];
      CheckDims(argument, tensor, sizes, true);
      for (size_t other = inputs.size(); other < argument; ++other) {
        if (Overlaps(tensor, *tensors[other])) {
          RELAX_THROW(ValueError) << Where(argument) << ": shares memory with output "
                                  << other - inputs.size();
        }
      }
      if (OverlapsItself(tensor)) {
        RELAX_THROW(ValueError) << Where(argument) << ": two of its elements share memory";
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
  static void* UseInput(const DLTensor& tensor, const DLTensor* const* output_tensors,
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

  // A borrowed tensor (a DLTensor*) cannot be returned; None takes its place.
  static ffi::Any Result(ffi::AnyView arg) {
    if (arg.type_index() == ffi::TypeIndex::kTVMFFIDLTensorPtr) return nullptr;
    return arg;
  }

  void Run(void** buffers, const int64_t* sizes) {
    const int64_t bytes = Value(arena, sizes);
    if (bytes < 0) {
      RELAX_THROW(ValueError) << Quote(name)
                              << ": the sizes are too large: intermediate results need more bytes "
                                 "than there are addresses";
    }
    ArenaList::Arena taken;
    if (bytes > 0) taken = TakeArena(bytes);
    if (profile != nullptr) profile->count = 0;
    relax_rt2_context context{threads, kRelaxRt2Ok, profile};
    const int32_t status = CallMain(buffers, sizes, taken.memory.get(), &context);
    if (bytes > 0) arenas_.Give(std::move(taken));
    if (context.failure == kRelaxRt2Interrupted) throw ffi::EnvErrorAlreadySet();
    if (status != 0 && context.failure == kRelaxRt2Ok) ThrowRaised(status);
    if (context.failure == kRelaxRt2OutOfMemory) {
      RELAX_THROW(MemoryError) << Quote(name) << ": out of memory for the scratch of a kernel";
    }
    if (context.failure == kRelaxRt2OutOfBounds) {
      RELAX_THROW(RuntimeError) << Quote(name) << ": " << TakeGuardReport();
    }
    if (context.failure != kRelaxRt2Ok) {
      RELAX_THROW(RuntimeError) << Quote(name) << ": a kernel threw a C++ exception";
    }
  }

  int32_t CallMain(void** buffers, const int64_t* sizes, void* memory,
                   relax_rt2_context* context) const {
    const ContextScope scope(context);
    return main(buffers, sizes, memory, context);
  }

  ArenaList::Arena TakeArena(int64_t bytes) {
    try {
      return arenas_.Take(bytes);
    } catch (const std::bad_alloc&) {
      RELAX_THROW(MemoryError) << Quote(name) << ": out of memory for " << bytes
                               << " bytes of intermediate results";
    }
  }

  [[noreturn]] void ThrowRaised(int32_t status) const {
    TVMFFIObjectHandle raised = nullptr;
    TVMFFIErrorMoveFromRaised(&raised);
    if (raised != nullptr) {
      throw ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<ffi::Error>(
          ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<ffi::Object>(
              static_cast<TVMFFIObject*>(raised)));
    }
    RELAX_THROW(RuntimeError) << Quote(name) << ": failed with status " << status
                              << " and no error";
  }

  ArenaList arenas_;
};

ffi::Function MakeExecutable(int64_t main, int64_t shapes, const ffi::String& name,
                             const ffi::Array<Executable::ParameterSpec>& inputs,
                             const ffi::Array<Executable::ParameterSpec>& outputs,
                             const ffi::Array<ffi::String>& sizes,
                             const ffi::Array<int64_t>& binders,
                             const ffi::Array<int64_t>& checks,
                             const ffi::Tuple<int64_t, int64_t>& arena,
                             const ffi::Array<int64_t>& constants, int64_t threads,
                             const ffi::Any& keep_alive, int64_t profile) {
  auto executable = std::make_shared<Executable>();
  Executable& self = *executable;
  self.main = reinterpret_cast<relax_rt2_main>(main);
  self.shapes = reinterpret_cast<relax_rt2_shapes>(shapes);
  self.name = name;
  self.size_names.assign(sizes.begin(), sizes.end());
  self.symbol_count = binders.size() / 4;
  if (main == 0 || binders.size() % 4 != 0 || checks.size() % 5 != 0 ||
      self.symbol_count > self.size_names.size()) {
    RELAX_THROW(ValueError) << "`" << name << "`: expected the address of a program, names of "
                            << "all sizes, 4 numbers a symbol and 5 a check, got " << main << ", "
                            << sizes.size() << ", " << binders.size() << " and " << checks.size();
  }
  self.inputs = self.Parse(inputs, "input");
  self.outputs = self.Parse(outputs, "output");
  self.arena = {arena.get<0>(), arena.get<1>()};
  self.Check(self.arena, "arena");
  self.ParseBinders(binders);
  self.ParseChecks(checks);
  for (const int64_t address : constants) {
    self.constants.push_back(reinterpret_cast<void*>(address));
  }
  self.threads = static_cast<int32_t>(threads);
  self.keep_alive = keep_alive;
  self.profile = reinterpret_cast<relax_rt2_profile*>(profile);
  return ffi::Function::FromPacked([executable](ffi::PackedArgs args, ffi::Any* result) {
    const RunningCall running;
    try {
      executable->Call(args, result);
    } catch (const std::bad_alloc&) {
      RELAX_THROW(MemoryError) << "`" << executable->name << "`: out of memory";
    }
  });
}

// A tensor on external memory, kept alive by `owner`; for arrays that DLPack rejects (read-only
// ones, and numpy's bfloat16).
ffi::Tensor TensorFromMemory(int64_t address, const ffi::Shape& shape, const ffi::Shape& strides,
                             const ffi::String& dtype, const ffi::Any& owner) {
  struct Borrowed {
    void* data;
    ffi::Any owner;
    void AllocData(DLTensor* tensor) { tensor->data = data; }
    void FreeData(DLTensor*) {}
  };
  if (shape.size() != strides.size()) {
    RELAX_THROW(ValueError) << "a tensor of " << shape.size() << " dimensions: got "
                            << strides.size() << " strides";
  }
  return ffi::Tensor::FromNDAllocStrided(Borrowed{reinterpret_cast<void*>(address), owner}, shape,
                                         strides, ParseDataType(dtype), DLDevice{kDLCPU, 0});
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("relax_mlir.make_executable", MakeExecutable)
      .def("relax_mlir.tensor_from_memory", TensorFromMemory);
}

}  // namespace
}  // namespace relax_mlir
