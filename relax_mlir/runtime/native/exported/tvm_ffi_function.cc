// The model as a function of tvm-ffi: tvm_ffi.load_module("model.so").main.
//
// Takes the inputs, and returns an array of tensors; or takes inputs and outputs. References to
// tvm-ffi are weak: a program that calls the function has loaded it, others do without.
#include <tvm/ffi/c_api.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "loaded_model.h"
#include "running_call.h"

#pragma weak TVMFFIErrorSetRaisedFromCStr
#pragma weak TVMFFIFunctionCall
#pragma weak TVMFFIFunctionGetGlobal
#pragma weak TVMFFIObjectDecRef
#pragma weak TVMFFITensorFromDLPack

namespace relax_mlir {
namespace {

// A reference to an object of tvm-ffi.
struct Release {
  void operator()(void* object) const { TVMFFIObjectDecRef(object); }
};
using Object = std::unique_ptr<void, Release>;

// An output, which owns its memory.
struct Output {
  DLManagedTensor managed{};
  std::vector<int64_t> shape;
  AlignedMemory memory;

  static void Delete(DLManagedTensor* managed) { delete static_cast<Output*>(managed->manager_ctx); }
};

void Check(int status, const char* what) {
  if (status != 0) RELAX_FAIL(RuntimeError) << "tvm-ffi: " << what << " failed";
}

const DLTensor* GetTensor(const Model& model, const TVMFFIAny& value, size_t number) {
  const DLTensor* tensor = nullptr;
  if (value.type_index == kTVMFFITensor) {
    tensor = TVMFFITensorGetDLTensorPtr(value.v_obj);
  } else if (value.type_index == kTVMFFIDLTensorPtr) {
    tensor = static_cast<const DLTensor*>(value.v_ptr);
  }
  if (tensor == nullptr) {
    RELAX_FAIL(TypeError) << model.Where(number) << ": expected a tensor, got a value of type "
                          << int64_t{value.type_index};
  }
  model.CheckTensor(*tensor, number);
  return tensor;
}

std::unique_ptr<Output> Allocate(const Model& model, size_t number, const int64_t* sizes) {
  auto output = std::make_unique<Output>();
  const Parameter& parameter = model.outputs[number];
  output->shape.resize(parameter.dims.size());
  output->memory = AllocateAligned(model.OutputShape(number, sizes, output->shape.data()));
  output->managed.dl_tensor = {output->memory.get(),
                               {kDLCPU, 0},
                               static_cast<int32_t>(parameter.dims.size()),
                               parameter.dtype,
                               output->shape.data(),
                               nullptr,
                               0};
  output->managed.manager_ctx = output.get();
  output->managed.deleter = Output::Delete;
  return output;
}

// An array of tensors, which takes the outputs.
void Return(std::vector<std::unique_ptr<Output>> outputs, TVMFFIAny* result) {
  std::vector<Object> tensors;
  std::vector<TVMFFIAny> elements;
  for (std::unique_ptr<Output>& output : outputs) {
    TVMFFIObjectHandle tensor = nullptr;
    Check(TVMFFITensorFromDLPack(&output->managed, 0, 0, &tensor), "TVMFFITensorFromDLPack");
    static_cast<void>(output.release());  // the tensor owns it
    tensors.emplace_back(tensor);
    TVMFFIAny element{};
    element.type_index = kTVMFFITensor;
    element.v_obj = static_cast<TVMFFIObject*>(tensor);
    elements.push_back(element);
  }
  const std::string name = "ffi.Array";
  const TVMFFIByteArray bytes{name.data(), name.size()};
  TVMFFIObjectHandle function = nullptr;
  Check(TVMFFIFunctionGetGlobal(&bytes, &function), "TVMFFIFunctionGetGlobal");
  const Object kept(function);
  const auto count = static_cast<int32_t>(elements.size());
  Check(TVMFFIFunctionCall(function, elements.data(), count, result), "ffi.Array");
}

void Call(const TVMFFIAny* args, size_t count, TVMFFIAny* result) {
  Model& model = LoadedModel();
  const size_t inputs = model.inputs.size();
  const bool has_outputs = count == inputs + model.outputs.size();
  if (!has_outputs && count != inputs) {
    RELAX_FAIL(TypeError) << "`main`: expected " << inputs << " arguments, or "
                          << inputs + model.outputs.size() << " with outputs, got " << count;
  }
  ShortVector<const DLTensor*, 16> tensors(count);
  for (size_t i = 0; i < count; ++i) tensors[i] = GetTensor(model, args[i], i);
  ShortVector<int64_t, 16> sizes(model.size_names.size());
  model.BindSizes(tensors.data(), sizes.data());
  if (has_outputs) {
    RunLoadedModel(model, tensors.data(), nullptr, sizes.data(), 0);
    return;
  }
  std::vector<std::unique_ptr<Output>> outputs;
  std::vector<void*> memory;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    outputs.push_back(Allocate(model, i, sizes.data()));
    memory.push_back(outputs.back()->memory.get());
  }
  RunLoadedModel(model, tensors.data(), memory.data(), sizes.data(), 0);
  Return(std::move(outputs), result);
}

}  // namespace
}  // namespace relax_mlir

RELAX_RT2_EXPORT int32_t __tvm_ffi_main(void*, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result) {
  using namespace relax_mlir;
  const RunningCall running;
  result->type_index = kTVMFFINone;
  try {
    Call(args, static_cast<size_t>(count), result);
    return 0;
  } catch (const Failure& failure) {
    TVMFFIErrorSetRaisedFromCStr(failure.kind(), failure.what());
  } catch (const std::bad_alloc&) {
    TVMFFIErrorSetRaisedFromCStr("MemoryError", "`main`: out of memory");
  } catch (...) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "`main`: an unknown exception");
  }
  return -1;
}
