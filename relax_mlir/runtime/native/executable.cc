// Models as functions of tvm-ffi.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "errors.h"
#include "failure.h"
#include "ffi_tensors.h"
#include "model.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

class Executable {
 public:
  using ParameterSpec = ffi::Tuple<ffi::String, ffi::String, ffi::Array<int64_t>>;

  Model model;
  int32_t threads = 1;
  ffi::Any keep_alive;
  relax_rt2_profile* profile = nullptr;

  // Takes the inputs, and optionally all outputs.
  void Call(ffi::PackedArgs args, ffi::Any* result) {
    const size_t input_count = model.inputs.size();
    const size_t output_count = model.outputs.size();
    const auto count = static_cast<size_t>(args.size());
    const bool has_outputs = count == input_count + output_count;
    if (!has_outputs && count != input_count) {
      RELAX_THROW(TypeError) << Quote(model.name) << ": expected " << input_count
                             << " arguments, or " << input_count + output_count
                             << " with outputs, got " << count;
    }
    ShortVector<const DLTensor*, 16> tensors(count);
    for (size_t i = 0; i < count; ++i) tensors[i] = GetTensor(args[i], i);
    ShortVector<int64_t, 16> sizes(model.size_names.size());
    model.BindSizes(tensors.data(), sizes.data());

    ShortVector<void*, 16> allocated(output_count);
    ffi::Array<ffi::Any> results;
    results.reserve(static_cast<int64_t>(output_count));
    for (size_t i = 0; i < output_count; ++i) {
      if (has_outputs) {
        results.push_back(Result(args[static_cast<int>(input_count + i)]));
        continue;
      }
      ffi::Tensor tensor = AllocateOutput(i, sizes.data());
      allocated[i] = tensor.data_ptr();
      results.push_back(std::move(tensor));
    }
    if (profile != nullptr) profile->count = 0;
    relax_rt2_context context{threads, kRelaxRt2Ok, profile};
    const int32_t status = model.Run(tensors.data(), has_outputs ? nullptr : allocated.data(),
                                     sizes.data(), &context);
    if (context.failure == kRelaxRt2Interrupted) throw ffi::EnvErrorAlreadySet();
    if (status != 0 && context.failure == kRelaxRt2Ok) ThrowRaised(status);
    model.CheckFailure(context);
    *result = std::move(results);
  }

  void Parse(const ffi::Array<ParameterSpec>& specs, const char* kind,
             std::vector<Parameter>* parameters) const {
    for (const ParameterSpec& spec : specs) {
      const ffi::Array<int64_t> dims = spec.get<2>();
      Parameter parameter{spec.get<0>(), ParseDataType(spec.get<1>()), {}};
      if (dims.size() % 2 != 0) {
        RELAX_THROW(ValueError) << Quote(model.name) << ": " << kind << " " << Quote(parameter.name)
                                << ": dimensions are pairs of a kind and a value";
      }
      for (size_t d = 0; d < dims.size(); d += 2) {
        parameter.dims.push_back({dims[d], dims[d + 1]});
        model.CheckSize(parameter.dims.back(), std::string(kind) + " " + Quote(parameter.name));
      }
      parameters->push_back(std::move(parameter));
    }
  }

 private:
  const DLTensor* GetTensor(ffi::AnyView arg, size_t i) const {
    const std::optional<DLTensor*> found = arg.try_cast<DLTensor*>();
    if (!found || *found == nullptr) {
      RELAX_THROW(TypeError) << model.Where(i) << ": expected a tensor, got " << arg.GetTypeKey();
    }
    model.CheckTensor(**found, i);
    return *found;
  }

  ffi::Tensor AllocateOutput(size_t output, const int64_t* sizes) const {
    const Parameter& parameter = model.outputs[output];
    ShortVector<int64_t, 8> shape(parameter.dims.size());
    const int64_t bytes = model.OutputShape(output, sizes, shape.data());
    try {
      return AllocateTensor(ffi::ShapeView(shape.data(), parameter.dims.size()), parameter.dtype);
    } catch (const std::bad_alloc&) {
      RELAX_THROW(MemoryError) << Quote(model.name) << ": output " << Quote(parameter.name)
                               << ": out of memory for " << bytes << " bytes";
    }
  }

  // A borrowed tensor (a DLTensor*) cannot be returned; None takes its place.
  static ffi::Any Result(ffi::AnyView arg) {
    if (arg.type_index() == ffi::TypeIndex::kTVMFFIDLTensorPtr) return nullptr;
    return arg;
  }

  [[noreturn]] void ThrowRaised(int32_t status) const {
    TVMFFIObjectHandle raised = nullptr;
    TVMFFIErrorMoveFromRaised(&raised);
    if (raised != nullptr) {
      throw ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<ffi::Error>(
          ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<ffi::Object>(
              static_cast<TVMFFIObject*>(raised)));
    }
    RELAX_THROW(RuntimeError) << Quote(model.name) << ": failed with status " << status
                              << " and no error";
  }
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
  Model& model = executable->model;
  model.main = reinterpret_cast<relax_rt2_main>(main);
  model.shapes = reinterpret_cast<relax_rt2_shapes>(shapes);
  model.name = name;
  model.size_names.assign(sizes.begin(), sizes.end());
  model.symbol_count = binders.size() / 4;
  if (main == 0 || binders.size() % 4 != 0 || checks.size() % 5 != 0 ||
      model.symbol_count > model.size_names.size()) {
    RELAX_THROW(ValueError) << "`" << name << "`: expected the address of a program, names of "
                            << "all sizes, 4 numbers a symbol and 5 a check, got " << main << ", "
                            << sizes.size() << ", " << binders.size() << " and " << checks.size();
  }
  Converted(model.name, [&] {
    executable->Parse(inputs, "input", &model.inputs);
    executable->Parse(outputs, "output", &model.outputs);
    model.arena = {arena.get<0>(), arena.get<1>()};
    model.CheckSize(model.arena, "arena");
    for (size_t i = 0; i < binders.size(); i += 4) {
      model.AddBinder({static_cast<size_t>(binders[i]), static_cast<size_t>(binders[i + 1]),
                       binders[i + 2], binders[i + 3]});
    }
    for (size_t i = 0; i < checks.size(); i += 5) {
      model.AddCheck({{checks[i], checks[i + 1]},
                      checks[i + 2] == kEqual ? kEqual : kAtLeast,
                      {checks[i + 3], checks[i + 4]}});
    }
  });
  for (const int64_t address : constants) {
    model.constants.push_back(reinterpret_cast<void*>(address));
  }
  executable->threads = static_cast<int32_t>(threads);
  executable->keep_alive = keep_alive;
  executable->profile = reinterpret_cast<relax_rt2_profile*>(profile);
  return ffi::Function::FromPacked([executable](ffi::PackedArgs args, ffi::Any* result) {
    const RunningCall running;
    Converted(executable->model.name, [&] { executable->Call(args, result); });
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
