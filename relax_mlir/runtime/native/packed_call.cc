// Calls from compiled code to functions of the tvm-ffi registry, Python ones included.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <exception>
#include <optional>
#include <vector>

#include "abi.h"
#include "errors.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

// Looked up at every call, which costs one hash of the name: when a function is registered again,
// as notebooks do, the new one is called, and a cached handle would keep the old one.
void CallPacked(const char* name, int32_t count, DLTensor* arguments) {
  std::vector<ffi::AnyView> views;
  views.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) views.emplace_back(arguments + i);
  ffi::Any result;
  const std::optional<ffi::Function> function = ffi::Function::GetGlobal(name);
  if (!function) RELAX_THROW(ValueError) << "`" << name << "`: no such function is registered";
  function->CallPacked(views.data(), count, &result);
}

}  // namespace
}  // namespace relax_mlir

int32_t relax_rt1_call_packed(const char* name, int32_t count, DLTensor* arguments) {
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
