// What the exporter writes into a library, beside the code: codegen/exported_library.py.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_DESCRIPTION_H_
#define RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_DESCRIPTION_H_

#include <stdint.h>

#include "abi.h"

// The model, compiled for one kind of processor.
struct relax_mlir_variant {
  const char* features;  // that it needs, by LLVM's names, separated by commas
  relax_rt2_main main;
  relax_rt2_shapes shapes;
  // Inputs, outputs, sizes, checks, arena and constants, as numbers and names in the order in
  // which ReadModel takes them.
  const int64_t* numbers;
  const char* const* names;
};

extern "C" {
extern const relax_mlir_variant relax_mlir_variants[];  // the first that fits is used
extern const int64_t relax_mlir_variant_count;
extern const char relax_mlir_signature_text[];  // JSON
extern const char relax_mlir_weights[];         // aligned to 64 bytes
}

#endif  // RELAX_MLIR_RUNTIME_NATIVE_EXPORTED_DESCRIPTION_H_
