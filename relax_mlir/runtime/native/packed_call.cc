// Calls from compiled code to functions of the tvm-ffi registry, Python ones included.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <exception>
#include <optional>
#include <vector>

#include "abi.h"
#include "errors.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

// A tensor object on memory of the caller: Python functions make arrays of these, not of a
// DLTensor*. It is good until the call returns.
ffi::Tensor Borrow(const DLTensor& tensor) {
  struct Lender {
    void* data;
    void AllocData(DLTensor* borrowed) { borrowed->data = data; }
    void FreeData(DLTensor*) {}
  };
  const auto rank = static_cast<size_t>(tensor.ndim);
  return ffi::Tensor::FromNDAllocStrided(
      Lender{tensor.data}, ffi::ShapeView(tensor.shape, rank),
      ffi::ShapeView(tensor.strides, rank), tensor.dtype, tensor.device);
}

// Looked up at every call, which costs one hash of the name: when a function is registered again,
// as notebooks do, the new one is called, and a cached handle would keep the old one.
void CallPacked(const char* name, int32_t count, DLTensor* arguments) {
  std::vector<ffi::Tensor> tensors;
  for (int32_t i = 0; i < count; ++i) tensors.push_back(Borrow(arguments[i]));
  const std::vector<ffi::AnyView> views(tensors.begin(), tensors.end());
  ffi::Any result;
  const std::optional<ffi::Function> function = ffi::Function::GetGlobal(name);
  if (!function) RELAX_THROW(ValueError) << "`" << name << "`: no such function is registered";
  function->CallPacked(views.data(), count, &result);
}

}  // namespace
}  // namespace relax_mlir

int32_t relax_rt2_call_packed(const char* name, int32_t count, DLTensor* arguments) {
  if (relax_mlir::ContextScope::HasFailed()) return -1;  // of what the kernel should have written
  try {
    relax_mlir::CallPacked(name, count, arguments);
    return 0;
  } catch (const tvm::ffi::Error& error) {
    tvm::ffi::detail::SetSafeCallRaised(error);
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
  } catch (...) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a packed function threw something unknown");
  }
  return -1;
}
