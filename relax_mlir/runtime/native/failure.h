// Errors of code that does not know tvm-ffi; its callers convert them.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_FAILURE_H_
#define RELAX_MLIR_RUNTIME_NATIVE_FAILURE_H_

#include <stdint.h>

#include <exception>
#include <string>
#include <utility>

namespace relax_mlir {

class Failure : public std::exception {
 public:
  Failure(const char* kind, std::string text) : kind_(kind), text_(std::move(text)) {}

  const char* kind() const { return kind_; }  // a Python exception class
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  const char* kind_;
  std::string text_;
};

// Collects the text of a failure, and throws it at the end of the statement. Streams of the C++
// library would add its locales to every exported model.
class FailureText {
 public:
  explicit FailureText(const char* kind) : kind_(kind) {}
  FailureText(const FailureText&) = delete;
  [[noreturn]] ~FailureText() noexcept(false) { throw Failure(kind_, std::move(text_)); }

  FailureText& operator<<(const std::string& text) {
    text_ += text;
    return *this;
  }
  FailureText& operator<<(int64_t number) { return *this << std::to_string(number); }
  FailureText& operator<<(size_t number) { return *this << std::to_string(number); }
  FailureText& operator<<(int number) { return *this << std::to_string(number); }

 private:
  const char* kind_;
  std::string text_;
};

// A name in a message.
inline std::string Quote(const std::string& text) { return "`" + text + "`"; }

}  // namespace relax_mlir

// RELAX_FAIL(ValueError) << "what is wrong";  Kind is a Python exception class.
#define RELAX_FAIL(Kind) ::relax_mlir::FailureText(#Kind)

#endif  // RELAX_MLIR_RUNTIME_NATIVE_FAILURE_H_
