// RUN: relax-opt %s -p relax-convert-layout{desired-layouts=relax.nn.conv2d:NHWC:OHWI} | filecheck %s

// A convolution uses the requested layout, and so do its consumers.
// CHECK-LABEL:   func.func @main
// CHECK:         "relax.permute_dims"(%arg0) {axes = array<i64: 0, 2, 3, 1>
// CHECK:         "relax.permute_dims"(%arg1) {axes = array<i64: 0, 2, 3, 1>
// CHECK:         %[[C:.*]] = "relax.nn_conv2d"({{.*}}data_layout = "NHWC"{{.*}}kernel_layout = "OHWI"
// CHECK:         %[[R:.*]] = "relax.nn_relu"(%[[C]])
// CHECK:         "relax.permute_dims"(%[[R]]) {axes = array<i64: 0, 3, 1, 2>
func.func @main(%x: tensor<1x2x5x5xf32> {relax.name = "x"}, %w: tensor<3x2x3x3xf32> {relax.name = "w"}) -> tensor<1x3x3x3xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {data_layout = "NCHW", dilation = array<i64: 1, 1>, groups = 1 : i64, kernel_layout = "OIHW", out_dtype, out_layout = "NCHW", padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32>
  %1 = "relax.nn_relu"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32>
  return %1 : tensor<1x3x3x3xf32>
}
