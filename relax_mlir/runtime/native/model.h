// A compiled program with its interface: parameters, sizes, constants. Without tvm-ffi.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_MODEL_H_
#define RELAX_MLIR_RUNTIME_NATIVE_MODEL_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "abi.h"
#include "arena_list.h"
#include "tensors.h"

namespace relax_mlir {

enum SizeKind : int64_t {
  kStatic = 0,   // the value itself
  kSymbol = 1,   // symbol number `value`
  kDerived = 2,  // sizes[value], computed by the shape function
};

struct Size {
  int64_t kind;
  int64_t value;
};

struct Parameter {
  std::string name;
  DLDataType dtype;
  std::vector<Size> dims;
};

// The input dimension that binds a symbol: its size is factor * symbol + offset.
struct Binder {
  size_t argument;
  size_t dim;
  int64_t factor;
  int64_t offset;
};

enum Relation : int64_t { kEqual = 0, kAtLeast = 1 };

// A constraint on the sizes of a call.
struct SizeCheck {
  Size lhs;
  Relation relation;
  Size rhs;
};

// Vector with inline storage, to avoid heap allocations except for programs with many weights.
template <typename T, size_t kInline>
class ShortVector {
 public:
  explicit ShortVector(size_t size) {
    if (size > kInline) heap_.reset(new T[size]);
  }
  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  T& operator[](size_t i) { return data()[i]; }

 private:
  std::array<T, kInline> inline_;
  std::unique_ptr<T[]> heap_;
};

// Methods throw Failure and std::bad_alloc. A call binds the sizes of its inputs, then runs.
class Model {
 public:
  relax_rt2_main main = nullptr;
  relax_rt2_shapes shapes = nullptr;
  std::string name;
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<std::string> size_names;  // the symbols, then the derived sizes
  std::vector<Binder> binders;          // of each symbol
  std::vector<SizeCheck> checks;
  Size arena{kStatic, 0};
  std::vector<void*> constants;
  size_t symbol_count = 0;

  // Adds what refers to parameters and sizes, if these exist.
  void AddBinder(const Binder& binder);
  void AddCheck(const SizeCheck& check);
  void CheckSize(Size size, const std::string& what, int64_t least = 0) const;

  // Description of an argument, inputs before outputs: `main`: argument 0 `x`.
  std::string Where(size_t argument) const;

  // Checks the device, type and rank of an argument.
  void CheckTensor(const DLTensor& tensor, size_t argument) const;

  // Fills `sizes`, one per name, from the shapes of the inputs, and checks these.
  void BindSizes(const DLTensor* const* tensors, int64_t* sizes) const;

  // Fills the shape of an output; returns its size in bytes.
  int64_t OutputShape(size_t output, const int64_t* sizes, int64_t* shape) const;

  // Runs the program.
  //
  // `tensors` holds the inputs, and the outputs if the caller gives them; otherwise `allocated`
  // holds the memory of each output. Returns what `main` returns; failures of kernels are in
  // `context`.
  int32_t Run(const DLTensor* const* tensors, void* const* allocated, const int64_t* sizes,
              relax_rt2_context* context);

  // Throws the failure of a kernel.
  void CheckFailure(const relax_rt2_context& context) const;

 private:
  // A contiguous, aligned copy of an argument; copied back for outputs.
  struct Temporary {
    AlignedMemory memory;
    const DLTensor* output;
  };

  const Parameter& ParameterOf(size_t argument) const {
    return argument < inputs.size() ? inputs[argument] : outputs[argument - inputs.size()];
  }
  std::string Describe(Size size) const;
  [[noreturn]] void FailSize(size_t argument, size_t dim, int64_t expected, int64_t got) const;
  int64_t Solve(const Binder& binder, const DLTensor& tensor) const;
  void CheckDims(size_t argument, const DLTensor& tensor, const int64_t* sizes, bool derived) const;
  void CheckSizes(const SizeCheck& check, const int64_t* sizes) const;
  std::string Origins(const SizeCheck& check, const int64_t* sizes) const;
  bool Mentions(Size size, size_t symbol) const;
  void UseOutputs(const DLTensor* const* tensors, const int64_t* sizes, void** buffers,
                  std::vector<Temporary>* temporaries) const;
  static void* UseInput(const DLTensor& tensor, const DLTensor* const* output_tensors,
                        size_t output_count, std::vector<Temporary>* temporaries);
  ArenaList::Arena TakeArena(const int64_t* sizes);

  ArenaList arenas_;
};

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_MODEL_H_
