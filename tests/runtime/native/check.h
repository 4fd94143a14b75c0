// Asserts with a message, and the tensors that the tests are made of.
#ifndef RELAX_MLIR_TESTS_NATIVE_CHECK_H_
#define RELAX_MLIR_TESTS_NATIVE_CHECK_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#define CHECK(condition, message)                                                          \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " #condition ": " << message << "\n"; \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (false)

// Also what was got and what was wanted.
#define CHECK_EQUAL(got, wanted)                                                            \
  do {                                                                                      \
    const auto& got_value = (got);                                                          \
    const auto& wanted_value = (wanted);                                                    \
    CHECK(got_value == wanted_value, "got " << got_value << ", expected " << wanted_value); \
  } while (false)

inline const DLDataType kFloat32{kDLFloat, 32, 1};
inline const DLDataType kFloat16{kDLFloat, 16, 1};
inline const DLDataType kInt64{kDLInt, 64, 1};

// A DLTensor with its shape and strides, on memory of the caller.
struct View {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  DLTensor tensor;

  View(void* data, DLDataType dtype, std::vector<int64_t> sizes, std::vector<int64_t> steps)
      : shape(std::move(sizes)), strides(std::move(steps)) {
    tensor = {data,  {kDLCPU, 0},  static_cast<int32_t>(shape.size()),
              dtype, shape.data(), strides.data(),
              0};
  }
  View(const View&) = delete;

  // Row-major.
  View(void* data, DLDataType dtype, const std::vector<int64_t>& sizes)
      : View(data, dtype, sizes, std::vector<int64_t>(sizes.size(), 1)) {
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  }
};

// The message of the error that a call throws.
template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const tvm::ffi::Error& error) {
    return error.kind() + ": " + error.message();
  }
  return "no error";
}

#endif  // RELAX_MLIR_TESTS_NATIVE_CHECK_H_
