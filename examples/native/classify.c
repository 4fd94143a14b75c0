/* Classifies images by an exported model.
 *
 *   relax-mlir export models/fashion_mlp.onnx -o fashion.so
 *   cc -I . examples/native/classify.c fashion.so -Wl,-rpath,. -o classify
 *   ./classify images.bin    (784 floats an image)
 */
#include <stdio.h>

#include "fashion.h"

enum { kPixels = 784, kClasses = 10, kImages = 1000 };

static float images[kImages * kPixels];
static float logits[kImages * kClasses];

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) {
    fprintf(stderr, "usage: %s images.bin\n", argv[0]);
    return 2;
  }
  int64_t count = (int64_t)(fread(images, sizeof(float), kImages * kPixels, file) / kPixels);
  fclose(file);

  int64_t image_shape[] = {count, kPixels};
  int64_t logit_shape[] = {count, kClasses};
  relax_mlir_tensor inputs[fashion_INPUTS] = {relax_mlir_floats(images, 2, image_shape)};
  relax_mlir_tensor outputs[fashion_OUTPUTS] = {relax_mlir_floats(logits, 2, logit_shape)};
  if (fashion_run(inputs, outputs, 0) != RELAX_MLIR_OK) {
    fprintf(stderr, "%s\n", fashion_error());
    return 1;
  }
  for (int64_t i = 0; i < count; ++i) {
    int best = 0;
    for (int c = 1; c < kClasses; ++c) {
      if (logits[i * kClasses + c] > logits[i * kClasses + best]) best = c;
    }
    printf("%d\n", best);
  }
  return 0;
}
