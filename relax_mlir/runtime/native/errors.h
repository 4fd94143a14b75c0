// Throws tvm-ffi errors without a C++ backtrace.
//
// TVM_FFI_THROW symbolizes a backtrace, which reads the debug information of every library of the
// process: 0.4 s for the first error and 25 us for each later one, for frames of no use to users.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_ERRORS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_ERRORS_H_

#include <tvm/ffi/error.h>

#include <new>
#include <sstream>
#include <string>

#include "failure.h"

namespace relax_mlir {

class ErrorStream {
 public:
  explicit ErrorStream(const char* kind) : kind_(kind) {}
  [[noreturn]] ~ErrorStream() noexcept(false) { throw tvm::ffi::Error(kind_, text_.str(), ""); }

  std::ostringstream& text() { return text_; }

 private:
  const char* kind_;
  std::ostringstream text_;
};

// Calls a function whose failures become errors of tvm-ffi.
template <typename Body>
auto Converted(const std::string& name, const Body& body) {
  try {
    return body();
  } catch (const Failure& failure) {
    throw tvm::ffi::Error(failure.kind(), failure.what(), "");
  } catch (const std::bad_alloc&) {
    throw tvm::ffi::Error("MemoryError", Quote(name) + ": out of memory", "");
  }
}

}  // namespace relax_mlir

// RELAX_THROW(ValueError) << "what is wrong";  Kind is a Python exception class.
#define RELAX_THROW(Kind) ::relax_mlir::ErrorStream(#Kind).text()

#endif  // RELAX_MLIR_RUNTIME_NATIVE_ERRORS_H_
