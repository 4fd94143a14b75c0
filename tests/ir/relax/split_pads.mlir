// RUN: relax-opt %s -p relax-split-pads --split-input-file | filecheck %s

// Zeros are added in front of the convolution.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.pad"(%arg0)
// CHECK-SAME:    pads = #relax.shape<["0", "0", "1", "2", "0", "0", "1", "2"]>
// CHECK-SAME:    -> tensor<1x3x7x9xf32>
// CHECK-NEXT:    "relax.conv"(%0, %arg1)
// CHECK-SAME:    pads = array<i64: 0, 0, 0, 0>
func.func @main(%x: tensor<1x3x5x5xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x5x7xf32> {
  %0 = "relax.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 2, 1, 2>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x5x5xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x5x7xf32>
  return %0 : tensor<1x2x5x7xf32>
}

// -----

// Nothing to add, nothing to do.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.conv"(%arg0, %arg1)
func.func @main(%x: tensor<1x3x5x5xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %0 = "relax.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x5x5xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x3x3xf32>
  return %0 : tensor<1x2x3x3xf32>
}
