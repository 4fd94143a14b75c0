#include "loaded_model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "builtin_call.h"
#include "description.h"
#include "failure.h"

namespace relax_mlir {
namespace {

// Reads a description in order.
class Reader {
 public:
  explicit Reader(const relax_mlir_variant& variant)
      : numbers_(variant.numbers), names_(variant.names) {}

  int64_t Number() { return *numbers_++; }
  size_t Count() { return static_cast<size_t>(Number()); }
  std::string Name() { return *names_++; }
  Size ReadSize() {
    const int64_t kind = Number();
    return {kind, Number()};
  }

  std::vector<Parameter> Parameters() {
    std::vector<Parameter> parameters(Count());
    for (Parameter& parameter : parameters) {
      parameter.name = Name();
      parameter.dtype.code = static_cast<uint8_t>(Number());
      parameter.dtype.bits = static_cast<uint8_t>(Number());
      parameter.dtype.lanes = 1;
      parameter.dims.resize(Count());
      for (Size& dim : parameter.dims) dim = ReadSize();
    }
    return parameters;
  }

  const int64_t* Numbers(size_t count) {
    const int64_t* numbers = numbers_;
    numbers_ += count;
    return numbers;
  }

 private:
  const int64_t* numbers_;
  const char* const* names_;
};

// A weight that the library stores, or that is derived from another one.
struct Constant {
  char* data = nullptr;
  const Constant* source = nullptr;
  int64_t bytes = 0;  // of a derived one
  const int64_t* derivation = nullptr;
  bool is_used = false;  // by `main`
};

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Gives the memory of weights back that only others were derived from. It is a file's: if anything
// reads it again, the system does.
void ReleaseSources(const std::vector<Constant>& constants) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  std::vector<uintptr_t> starts;
  for (const Constant& constant : constants) {
    if (constant.source == nullptr) starts.push_back(reinterpret_cast<uintptr_t>(constant.data));
  }
  std::sort(starts.begin(), starts.end());
  for (const Constant& constant : constants) {
    if (constant.source != nullptr || constant.is_used) continue;
    const auto start = reinterpret_cast<uintptr_t>(constant.data);
    const auto next = std::upper_bound(starts.begin(), starts.end(), start);
    if (next == starts.end()) continue;
    const uintptr_t begin = (start + page - 1) / page * page;
    const uintptr_t end = *next / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

// Adds the weights to a model; derived ones are in memory that is never freed.
void ReadConstants(Reader* reader, Model* model) {
  std::vector<Constant> constants(reader->Count());
  int64_t derived_bytes = 0;
  for (Constant& constant : constants) {
    if (reader->Number() == 0) {
      constant.data = const_cast<char*>(relax_mlir_weights) + reader->Number();
      continue;
    }
    constant.source = &constants[reader->Count()];
    constant.bytes = reader->Number();
    constant.derivation = reader->Numbers(reader->Count());
    derived_bytes += Aligned(constant.bytes);
  }
  AlignedMemory memory;
  if (derived_bytes > 0) memory = AllocateAligned(derived_bytes);
  char* data = static_cast<char*>(memory.get());
  for (Constant& constant : constants) {
    if (constant.source == nullptr) continue;
    constant.data = data;
    data += Aligned(constant.bytes);
    const int32_t failure = relax_rt2_derive_constant(constant.derivation, constant.source->data,
                                                      constant.data, relax_rt2_max_threads());
    if (failure != kRelaxRt2Ok) throw std::bad_alloc();
  }
  for (size_t i = reader->Count(); i > 0; --i) {
    Constant& constant = constants[reader->Count()];
    constant.is_used = true;
    model->constants.push_back(constant.data);
  }
  if (derived_bytes > 0) ReleaseSources(constants);
  memory.release();
}

std::unique_ptr<Model> ReadModel(const relax_mlir_variant& variant) {
  Reader reader(variant);
  auto model = std::make_unique<Model>();
  model->main = variant.main;
  model->shapes = variant.shapes;
  model->name = reader.Name();
  model->inputs = reader.Parameters();
  model->outputs = reader.Parameters();
  model->size_names.resize(reader.Count());
  for (std::string& name : model->size_names) name = reader.Name();
  model->symbol_count = reader.Count();
  for (size_t i = 0; i < model->symbol_count; ++i) {
    const size_t argument = reader.Count();
    const size_t dim = reader.Count();
    const int64_t factor = reader.Number();
    model->AddBinder({argument, dim, factor, reader.Number()});
  }
  for (size_t i = reader.Count(); i > 0; --i) {
    const Size lhs = reader.ReadSize();
    const Relation relation = reader.Number() == kEqual ? kEqual : kAtLeast;
    model->AddCheck({lhs, relation, reader.ReadSize()});
  }
  model->arena = reader.ReadSize();
  ReadConstants(&reader, model.get());
  return model;
}

// Whether the processor lacks none of the features in a list. Those that no processor reports are
// flags of the compiler's models of processors.
bool Has(const std::string& present, const char* wanted) {
  for (const char* at = wanted; *at != '\0';) {
    const char* end = std::strchr(at, ',');
    if (end == nullptr) end = at + std::strlen(at);
    const std::string feature(at, end);
    if (("," + present + ",").find(",-" + feature + ",") != std::string::npos) return false;
    at = *end == ',' ? end + 1 : end;
  }
  return true;
}

[[noreturn]] void FailFeatures(const std::string& present) {
  const relax_mlir_variant& last = relax_mlir_variants[relax_mlir_variant_count - 1];
  RELAX_FAIL(RuntimeError) << "the processor lacks features: expected at least `" << last.features
                           << "`, got `" << present << "`";
}

// The first variant that this processor runs; tests choose one by its number.
const relax_mlir_variant& ChooseVariant() {
  const char* chosen = std::getenv("RELAX_MLIR_VARIANT");
  const std::string present = relax_rt2_cpu_features();
  for (int64_t i = 0; i < relax_mlir_variant_count; ++i) {
    if (chosen != nullptr && std::to_string(i) != chosen) continue;
    const relax_mlir_variant& variant = relax_mlir_variants[i];
    if (!Has(present, variant.features)) continue;
    const bool needs_tiles = std::strstr(variant.features, "amx-tile") != nullptr;
    if (needs_tiles && relax_rt2_request_tiles() == 0) continue;
    return variant;
  }
  FailFeatures(present);
}

}  // namespace

Model& LoadedModel() {
  static std::mutex mutex;
  static Model* model = nullptr;  // never destroyed: threads may be in calls when the process ends
  const std::lock_guard<std::mutex> lock(mutex);
  if (model == nullptr) model = ReadModel(ChooseVariant()).release();
  return *model;
}

void RunLoadedModel(Model& model, const DLTensor* const* tensors, void* const* allocated,
                    const int64_t* sizes, int32_t threads) {
  relax_rt2_context context{threads > 0 ? threads : relax_rt2_max_threads(), kRelaxRt2Ok, nullptr};
  const int32_t status = model.Run(tensors, allocated, sizes, &context);
  const std::exception_ptr raised = TakeRaised();
  model.CheckFailure(context);
  if (raised) std::rethrow_exception(raised);
  if (status != 0) RELAX_FAIL(RuntimeError) << "failed with status " << int64_t{status};
}

}  // namespace relax_mlir
