// Calls from compiled code to functions of the tvm-ffi registry: Python functions, and our own
// (builtins.h), which are registered here.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <array>
#include <exception>
#include <optional>
#include <vector>

#include "abi.h"
#include "builtins.h"
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

// An argument of a builtin: a tensor, or an integer, of which it makes one.
class Argument {
 public:
  DLTensor* Read(const char* name, int32_t number, ffi::AnyView value) {
    if (const auto tensor = value.try_cast<DLTensor*>()) return *tensor;
    const auto integer = value.try_cast<int64_t>();
    if (!integer) {
      RELAX_THROW(TypeError) << Quote(name) << ": argument " << number
                             << ": expected a tensor or an integer, got " << value.GetTypeKey();
    }
    integer_ = *integer;
    tensor_ = {&integer_, {kDLCPU, 0}, 0, {kDLInt, 64, 1}, nullptr, nullptr, 0};
    return &tensor_;
  }

 private:
  int64_t integer_ = 0;
  DLTensor tensor_{};
};

void CallBuiltin(const Builtin& builtin, ffi::PackedArgs given) {
  const RunningCall running;
  if (given.size() != builtin.arguments) {
    RELAX_THROW(TypeError) << Quote(builtin.name) << ": expected " << builtin.arguments
                           << " arguments, got " << given.size();
  }
  std::array<Argument, kMaxBuiltinArguments> arguments;
  std::array<DLTensor*, kMaxBuiltinArguments> tensors{};
  for (int32_t i = 0; i < builtin.arguments; ++i) {
    const auto place = static_cast<size_t>(i);
    tensors[place] = arguments[place].Read(builtin.name, i, given[i]);
  }
  Converted(builtin.name, [&] { builtin.call(tensors.data()); });
}

TVM_FFI_STATIC_INIT_BLOCK() {
  for (const Builtin& builtin : kBuiltins) {
    ffi::Function::SetGlobal(builtin.name,
                             ffi::Function::FromPacked([&builtin](ffi::PackedArgs arguments,
                                                                  ffi::Any* result) {
                               CallBuiltin(builtin, arguments);
                               *result = nullptr;
                             }));
  }
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
