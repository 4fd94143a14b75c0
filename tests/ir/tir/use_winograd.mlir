// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd{vector-bits=512} --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd --split-input-file | filecheck %s --check-prefix=NARROW
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd{winograd=never}" --split-input-file | filecheck %s --check-prefix=NEVER

// NEVER-NOT:     winograd

// A convolution stays direct, with a kernel in panels. The transformed kernel and the input limits
// become arguments, numbered by the attribute. The epilogue stays.
// CHECK-LABEL: func.func @fused_conv2d_relu_winograd(
// CHECK-SAME:    memref<1x30x30x32xf32>, %{{.+}}: memref<3x3x1x32x32xf32>, %{{.+}}: memref<6x6x1x32x32xf32>, %{{.+}}: memref<12xf32>, %{{.+}}: memref<1x28x28x32xf32>
// CHECK-SAME:    tir.winograd = array<i64: 0, 2, 3>
// CHECK:         name = "conv2d"
// CHECK-SAME:    static_extents = array<i64: 1, 28, 28, 32, 3, 3, 32>
// CHECK:         name = "relu"
// CHECK-LABEL: func.func @tiles
// CHECK-NOT:     tensor<3x3x32x32xf32>
// CHECK-DAG:     "relax.constant"() {value = #relax.const<"constant.panels">} : () -> tensor<3x3x1x32x32xf32>
// CHECK-DAG:     "relax.constant"() {value = #relax.const<"constant.winograd">} : () -> tensor<6x6x1x32x32xf32>
// CHECK-DAG:     "relax.constant"() {value = dense<{{.+}}> : tensor<12xf32>} : () -> tensor<12xf32>
// CHECK:         callee = @fused_conv2d_relu_winograd
// NARROW-LABEL: func.func @tiles
// NARROW:        tensor<6x6x{{.+}}x32x{{8|16|24}}xf32>
func.func @tiles(%x: tensor<1x30x30x32xf32>) -> tensor<1x28x28x32xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x32x32xf32>} : () -> tensor<3x3x32x32xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x30x30x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x28x28x32xf32>
  %1 = "relax.nn_relu"(%0) : (tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  return %1 : tensor<1x28x28x32xf32>
}

// -----

// The last tiles of 14x14 results extend past the border.
// CHECK-LABEL: func.func @reaching_out
// CHECK-LABEL: func.func @conv2d_winograd(
// CHECK:         name = "conv2d"
// CHECK-SAME:    static_extents = array<i64: 1, 14, 14, 64, 3, 3, 64>
func.func @reaching_out(%x: tensor<1x16x16x64xf32>) -> tensor<1x14x14x64xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x64x64xf32>} : () -> tensor<3x3x64x64xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x16x16x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x14x14x64xf32>
  return %0 : tensor<1x14x14x64xf32>
}

// -----

// Not if unsupported or unprofitable: strides, dilations, non-constant kernels, few channels,
// images of a few tiles.
// CHECK-LABEL: func.func @plain
// CHECK-NOT:     winograd
func.func @plain(%x: tensor<1x31x31x32xf32>, %w: tensor<3x3x32x32xf32>) -> (tensor<1x15x15x32xf32>, tensor<1x27x27x32xf32>, tensor<1x29x29x32xf32>) {
  %c = "relax.constant"() {value = dense<0.5> : tensor<3x3x32x32xf32>} : () -> tensor<3x3x32x32xf32>
  %0 = "relax.nn_conv2d"(%x, %c) {strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x31x31x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x15x15x32xf32>
  %1 = "relax.nn_conv2d"(%x, %c) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 2, 2>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x31x31x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x27x27x32xf32>
  %2 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x31x31x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x29x29x32xf32>
  return %0, %1, %2 : tensor<1x15x15x32xf32>, tensor<1x27x27x32xf32>, tensor<1x29x29x32xf32>
}

// -----

// CHECK-LABEL: func.func @small
// CHECK-NOT:     winograd
func.func @small(%x: tensor<1x30x30x8xf32>, %y: tensor<1x6x6x512xf32>) -> (tensor<1x28x28x16xf32>, tensor<1x4x4x512xf32>) {
  %v = "relax.constant"() {value = dense<0.5> : tensor<3x3x8x16xf32>} : () -> tensor<3x3x8x16xf32>
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x512x512xf32>} : () -> tensor<3x3x512x512xf32>
  %0 = "relax.nn_conv2d"(%x, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x30x30x8xf32>, tensor<3x3x8x16xf32>) -> tensor<1x28x28x16xf32>
  %1 = "relax.nn_conv2d"(%y, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x6x6x512xf32>, tensor<3x3x512x512xf32>) -> tensor<1x4x4x512xf32>
  return %0, %1 : tensor<1x28x28x16xf32>, tensor<1x4x4x512xf32>
}

// -----

// Not if the weights allow no input limits: all are zero.
// CHECK-LABEL: func.func @no_weights
// CHECK-NOT:     winograd
func.func @no_weights(%x: tensor<1x30x30x32xf32>) -> tensor<1x28x28x32xf32> {
  %w = "relax.constant"() {value = dense<0.0> : tensor<3x3x32x32xf32>} : () -> tensor<3x3x32x32xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype} : (tensor<1x30x30x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x28x28x32xf32>
  return %0 : tensor<1x28x28x32xf32>
}
