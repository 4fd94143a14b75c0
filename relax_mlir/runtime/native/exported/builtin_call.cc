// Calls from compiled code to functions of the runtime, in a process without tvm-ffi.
#include "builtin_call.h"

#include <array>
#include <exception>
#include <string>
#include <utility>

#include "abi.h"
#include "builtins.h"
#include "failure.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

thread_local std::exception_ptr raised;

const Builtin& Find(const std::string& name, int32_t count) {
  for (const Builtin& builtin : kBuiltins) {
    if (builtin.name == name && builtin.arguments == count) return builtin;
  }
  RELAX_FAIL(ValueError) << Quote(name) << ": no such function";
}

}  // namespace

std::exception_ptr TakeRaised() { return std::exchange(raised, nullptr); }

}  // namespace relax_mlir

int32_t relax_rt2_call_packed(const char* name, int32_t count, DLTensor* arguments) {
  using namespace relax_mlir;
  if (ContextScope::HasFailed()) return -1;  // its outputs may be uninitialised
  try {
    const Builtin& builtin = Find(name, count);
    std::array<DLTensor*, kMaxBuiltinArguments> tensors{};
    for (int32_t i = 0; i < count; ++i) tensors[static_cast<size_t>(i)] = &arguments[i];
    builtin.call(tensors.data());
    return 0;
  } catch (...) {
    raised = std::current_exception();
    return -1;
  }
}
