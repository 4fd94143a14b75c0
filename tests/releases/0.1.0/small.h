/* C interface of the model `small`, exported by relax_mlir.
 *
 * Inputs:
 *   0: x: float32[n, 3, 8, 8]
 * Outputs:
 *   0: y: float32[n, 10]
 *
 * Functions may be called from several threads at a time. The first call chooses the code for
 * this processor. Link with the library; the C library is all that it needs.
 */
#ifndef SMALL_H_
#define SMALL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RELAX_MLIR_TENSOR
#define RELAX_MLIR_TENSOR

/* A tensor in memory of the caller. The layout is that of DLPack's DLTensor. */
typedef struct relax_mlir_tensor {
  void *data;
  int32_t device_type; /* 1: CPU */
  int32_t device_id;
  int32_t ndim;
  uint8_t type_code; /* 0: int, 1: uint, 2: float, 4: bfloat, 6: bool; others as in DLPack */
  uint8_t type_bits;
  uint16_t type_lanes; /* 1 */
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: contiguous, in row-major order */
  uint64_t byte_offset;
} relax_mlir_tensor;

enum {
  RELAX_MLIR_OK = 0,
  RELAX_MLIR_WRONG_TYPE = 1, /* of elements, or no CPU memory */
  RELAX_MLIR_WRONG_SIZE = 2, /* or rank */
  RELAX_MLIR_OUT_OF_MEMORY = 3,
  RELAX_MLIR_FAILED = 4,
  RELAX_MLIR_WRONG_INDEX = 5 /* of a model that is compiled with checks of indices */
};

static inline relax_mlir_tensor relax_mlir_make_tensor(void *data, uint8_t type_code,
                                                       uint8_t type_bits, int32_t ndim,
                                                       int64_t *shape) {
  relax_mlir_tensor tensor = {data, 1, 0, ndim, type_code, type_bits, 1, shape, 0, 0};
  return tensor;
}

/* A contiguous tensor of float. */
static inline relax_mlir_tensor relax_mlir_floats(float *data, int32_t ndim, int64_t *shape) {
  return relax_mlir_make_tensor(data, 2, 32, ndim, shape);
}

#endif /* RELAX_MLIR_TENSOR */

#define small_INPUTS 1
#define small_OUTPUTS 1

/* Computes the outputs. `inputs` and `outputs` are arrays of tensors in the order above; the shape
 * of each output is given. `threads` is the maximum number of threads; 0 for one per processor.
 * Returns a status; after an error small_error() describes it. */
int32_t small_run(const relax_mlir_tensor *inputs, const relax_mlir_tensor *outputs,
                      int32_t threads);

/* Writes the shape of each output for some inputs, whose data are not read, to `shapes[i]`, which
 * has room for its dimensions. Returns a status. */
int32_t small_output_shapes(const relax_mlir_tensor *inputs, int64_t *const *shapes);

/* The last error of this thread. Valid until its next call. */
const char *small_error(void);

/* Names, element types and shapes of inputs and outputs, in JSON. */
const char *small_signature(void);

#ifdef __cplusplus
}
#endif

#endif /* SMALL_H_ */
