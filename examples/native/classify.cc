// Classifies images by an exported model; as classify.c.
//
//   relax-mlir export models/fashion_mlp.onnx -o fashion.so
//   c++ -I . examples/native/classify.cc fashion.so -Wl,-rpath,. -o classify
//   ./classify images.bin
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "fashion.h"

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "", std::ios::binary);
  if (!file) {
    std::cerr << "usage: " << argv[0] << " images.bin\n";
    return 2;
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::array<int64_t, 2> image_shape{static_cast<int64_t>(bytes.size() / sizeof(float) / 784), 784};
  std::vector<float> images(static_cast<size_t>(image_shape[0]) * 784);
  if (!images.empty()) std::memcpy(images.data(), bytes.data(), images.size() * sizeof(float));

  const relax_mlir_tensor input = relax_mlir_floats(images.data(), 2, image_shape.data());
  std::array<int64_t, 2> logit_shape{};
  std::array<int64_t*, 1> shapes{logit_shape.data()};
  if (fashion_output_shapes(&input, shapes.data()) != RELAX_MLIR_OK) {
    std::cerr << fashion_error() << "\n";
    return 1;
  }
  std::vector<float> logits(static_cast<size_t>(logit_shape[0] * logit_shape[1]));
  const relax_mlir_tensor output = relax_mlir_floats(logits.data(), 2, logit_shape.data());
  if (fashion_run(&input, &output, 0) != RELAX_MLIR_OK) {
    std::cerr << fashion_error() << "\n";
    return 1;
  }
  for (auto row = logits.begin(); row != logits.end(); row += logit_shape[1]) {
    std::cout << std::max_element(row, row + logit_shape[1]) - row << "\n";
  }
}
