// Calls from compiled code to functions of the tvm-ffi registry, including Python functions.
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

// A tensor object on memory of the caller, valid until the call returns: Python functions cannot
// convert a DLTensor* to an array.
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

// The function is looked up at every call, at the cost of one hash of the name, since functions can
// be registered again, as in notebooks.
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
  if (relax_mlir::ContextScope::HasFailed()) return -1;  // its outputs may be uninitialised
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
