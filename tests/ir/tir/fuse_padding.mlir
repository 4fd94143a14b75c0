// RUN: relax-opt %s -p relax-legalize,tir-use-winograd{vector-bits=512},tir-fuse-padding --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,tir-fuse-padding{products=true} --split-input-file | filecheck %s --check-prefix=GPU

// A depthwise reduction over windows pads implicitly, and is annotated with the padding.
// CHECK-LABEL: func.func @depthwise(
// CHECK-NOT:     callee = @pad
// CHECK:         callee = @conv2d_1
// CHECK-LABEL: func.func @conv2d_1(%arg0: memref<1x7x7x16xf32>
// CHECK:         "tir.alloc_buffer"() {shape = #relax.shape<["1", "9", "10", "16"]>}
// CHECK:         name = "pad"
// CHECK-SAME:    tir.pad = array<i64: 0, 1, 2, 0>
// CHECK:         name = "conv"
// CHECK-NOT:   func.func
// GPU-LABEL:   func.func @depthwise(
// GPU:           callee = @pad
func.func @depthwise(%x: tensor<1x7x7x16xf32>, %w: tensor<3x3x1x16xf32>) -> tensor<1x7x8x16xf32> {
  %0 = "relax.nn_pad"(%x) {pad_width = array<i64: 0, 0, 1, 1, 2, 1, 0, 0>, pad_value = 0.0 : f64, pad_mode = "constant"} : (tensor<1x7x7x16xf32>) -> tensor<1x9x10x16xf32>
  %1 = "relax.nn_conv2d"(%0, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 16 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x9x10x16xf32>, tensor<3x3x1x16xf32>) -> tensor<1x7x8x16xf32>
  return %1 : tensor<1x7x8x16xf32>
}

// -----

// So does a Winograd convolution, for zero padding.
// CHECK-LABEL: func.func @tiles(
// CHECK:         callee = @conv2d_winograd_1
// CHECK-LABEL: func.func @conv2d_winograd_1(%arg0: memref<1x28x28x32xf32>
// CHECK:         tir.pad = array<i64: 0, 1, 1, 0>
// On a GPU, all convolutions do.
// GPU-LABEL:   func.func @tiles(
// GPU-NOT:       callee = @pad
// GPU-LABEL:   func.func @conv2d_1(%arg0: memref<1x28x28x32xf32>
// GPU:           tir.pad = array<i64: 0, 1, 1, 0>
func.func @tiles(%x: tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x32x32xf32>} : () -> tensor<3x3x32x32xf32>
  %0 = "relax.nn_pad"(%x) {pad_width = array<i64: 0, 0, 1, 1, 1, 1, 0, 0>, pad_value = 0.0 : f64, pad_mode = "constant"} : (tensor<1x28x28x32xf32>) -> tensor<1x30x30x32xf32>
  %1 = "relax.nn_conv2d"(%0, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x30x30x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x28x28x32xf32>
  return %1 : tensor<1x28x28x32xf32>
}

// -----

// CHECK-LABEL: func.func @ones(
// CHECK:         callee = @pad
// CHECK:         callee = @conv2d_winograd
// GPU-LABEL:   func.func @ones(
// GPU:           callee = @pad
func.func @ones(%x: tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x32x32xf32>} : () -> tensor<3x3x32x32xf32>
  %0 = "relax.nn_pad"(%x) {pad_width = array<i64: 0, 0, 1, 1, 1, 1, 0, 0>, pad_value = 1.0 : f64, pad_mode = "constant"} : (tensor<1x28x28x32xf32>) -> tensor<1x30x30x32xf32>
  %1 = "relax.nn_conv2d"(%0, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x30x30x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x28x28x32xf32>
  return %1 : tensor<1x28x28x32xf32>
}

// -----

// A padded copy with another user stays; so does one for a convolution over all channels.
// CHECK-LABEL: func.func @wanted(
// CHECK:         callee = @pad
// CHECK:         callee = @conv2d
// CHECK:         callee = @conv2d1
func.func @wanted(%x: tensor<1x7x7x16xf32>, %w: tensor<3x3x1x16xf32>, %v: tensor<3x3x16x4xf32>) -> (tensor<1x7x7x16xf32>, tensor<1x7x7x4xf32>) {
  %0 = "relax.nn_pad"(%x) {pad_width = array<i64: 0, 0, 1, 1, 1, 1, 0, 0>, pad_value = 0.0 : f64, pad_mode = "constant"} : (tensor<1x7x7x16xf32>) -> tensor<1x9x9x16xf32>
  %1 = "relax.nn_conv2d"(%0, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 16 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x9x9x16xf32>, tensor<3x3x1x16xf32>) -> tensor<1x7x7x16xf32>
  %2 = "relax.nn_conv2d"(%0, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x9x9x16xf32>, tensor<3x3x16x4xf32>) -> tensor<1x7x7x4xf32>
  return %1, %2 : tensor<1x7x7x16xf32>, tensor<1x7x7x4xf32>
}
