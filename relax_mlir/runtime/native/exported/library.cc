// The C interface of an exported model; see the header that the exporter writes.
#include <dlpack/dlpack.h>

#include <new>
#include <string>

#include "abi.h"
#include "description.h"
#include "failure.h"
#include "loaded_model.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

enum Status : int32_t {
  kOk = 0,
  kWrongType = 1,
  kWrongSize = 2,
  kOutOfMemory = 3,
  kFailed = 4,
  kWrongIndex = 5,
};

thread_local std::string last_error;

// Calls a function; returns a status, and keeps the error.
template <typename Body>
int32_t Guarded(const Body& body) noexcept {
  try {
    body();
    return kOk;
  } catch (const Failure& failure) {
    const std::string kind = failure.kind();
    last_error = failure.what();
    if (kind == "TypeError") return kWrongType;
    if (kind == "ValueError") return kWrongSize;
    if (kind == "IndexOutOfRangeError") return kWrongIndex;
    return kind == "MemoryError" ? kOutOfMemory : kFailed;
  } catch (const std::bad_alloc&) {
    last_error.clear();  // has no text to give
    return kOutOfMemory;
  } catch (...) {
    last_error.clear();
    return kFailed;
  }
}

void CheckTensors(const Model& model, const DLTensor* tensors, size_t first, size_t count,
                  const DLTensor** pointers) {
  if (tensors == nullptr && count > 0) RELAX_FAIL(ValueError) << "expected tensors, got NULL";
  for (size_t i = 0; i < count; ++i) {
    model.CheckTensor(tensors[i], first + i);
    pointers[first + i] = &tensors[i];
  }
}

}  // namespace
}  // namespace relax_mlir

RELAX_RT2_EXPORT const char* relax_mlir_signature(void) { return relax_mlir_signature_text; }

RELAX_RT2_EXPORT const char* relax_mlir_error(void) { return relax_mlir::last_error.c_str(); }

RELAX_RT2_EXPORT int32_t relax_mlir_output_shapes(const DLTensor* inputs, int64_t* const* shapes) {
  using namespace relax_mlir;
  return Guarded([&] {
    const Model& model = LoadedModel();
    ShortVector<const DLTensor*, 16> tensors(model.inputs.size());
    CheckTensors(model, inputs, 0, model.inputs.size(), tensors.data());
    ShortVector<int64_t, 16> sizes(model.size_names.size());
    model.BindSizes(tensors.data(), sizes.data());
    for (size_t i = 0; i < model.outputs.size(); ++i) model.OutputShape(i, sizes.data(), shapes[i]);
  });
}

RELAX_RT2_EXPORT int32_t relax_mlir_run(const DLTensor* inputs, const DLTensor* outputs,
                                        int32_t threads) {
  using namespace relax_mlir;
  const RunningCall running;
  return Guarded([&] {
    Model& model = LoadedModel();
    const size_t count = model.inputs.size();
    ShortVector<const DLTensor*, 16> tensors(count + model.outputs.size());
    CheckTensors(model, inputs, 0, count, tensors.data());
    CheckTensors(model, outputs, count, model.outputs.size(), tensors.data());
    ShortVector<int64_t, 16> sizes(model.size_names.size());
    model.BindSizes(tensors.data(), sizes.data());
    RunLoadedModel(model, tensors.data(), nullptr, sizes.data(), threads);
  });
}
