// RUN: relax-opt %s -p relax-split-pads --split-input-file | filecheck %s

// Padding is computed before the convolution.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.nn_pad"(%arg0)
// CHECK-SAME:    pad_width = #relax.shape<["0", "0", "0", "0", "1", "1", "2", "2"]>
// CHECK-SAME:    -> tensor<1x3x7x9xf32>
// CHECK-NEXT:    "relax.nn_conv2d"(%0, %arg1)
// CHECK-SAME:    padding = array<i64: 0, 0, 0, 0>
func.func @main(%x: tensor<1x3x5x5xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x5x7xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 2, 1, 2>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x5x7xf32>
  return %0 : tensor<1x2x5x7xf32>
}

// -----

// No padding, no change.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.nn_conv2d"(%arg0, %arg1)
func.func @main(%x: tensor<1x3x5x5xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x3x3xf32>
  return %0 : tensor<1x2x3x3xf32>
}

// -----

// Padding applies to the height and width axes of the layout.
// CHECK-LABEL: func.func @last_channels
// CHECK-NEXT:    "relax.nn_pad"(%arg0)
// CHECK-SAME:    pad_width = #relax.shape<["0", "0", "1", "1", "2", "2", "0", "0"]>
// CHECK-NEXT:    "relax.nn_conv2d"(%0, %arg1)
// CHECK-SAME:    data_layout = "NHWC"
// CHECK-SAME:    padding = array<i64: 0, 0, 0, 0>
func.func @last_channels(%x: tensor<1x5x5x3xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x5x7x2xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 2, 1, 2>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x5x5x3xf32>, tensor<2x3x3x3xf32>) -> tensor<1x5x7x2xf32>
  return %0 : tensor<1x5x7x2xf32>
}
