// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-transpose-constants --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-transpose-constants{tf32=true} --split-input-file | filecheck %s --check-prefix=TF32

// MN-major weights may stay, unless tensor cores read 32-bit operands.
// CHECK-LABEL: func.func @across
// CHECK:         callee = @matmul, {{.*}} tensor<32x64xf32>>
// TF32-LABEL:  func.func @across
// TF32:          callee = @matmul_1, {{.*}} tensor<64x32xf32>>
// TF32-LABEL:  func.func @matmul_1(%arg0: memref<8x32xf32>, %arg1: memref<64x32xf32>
// TF32:          ^bb0(%[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// TF32:          memref.load %arg1[%[[J]], %[[K]]]
func.func @across(%x: tensor<8x32xf32>) -> tensor<8x64xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<32x64xf32>} : () -> tensor<32x64xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// -----

// K follows the memory order of the image: window rows, window columns, channels.
// CHECK-LABEL: func.func @windows
// CHECK:         "relax.constant"() {{.*}} tensor<16x3x3x8xf32>
// CHECK-LABEL: func.func @{{.*}}conv2d{{.*}}, %arg1: memref<16x3x3x8xf32>
func.func @windows(%x: tensor<1x10x10x8xf32>) -> tensor<1x8x8x16xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<16x8x3x3xf32>} : () -> tensor<16x8x3x3xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {data_layout = "NHWC", kernel_layout = "OIHW", out_layout = "NHWC", dilation = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, out_dtype} : (tensor<1x10x10x8xf32>, tensor<16x8x3x3xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// -----

// Weights that are K-major already stay, and so do activations.
// CHECK-LABEL: func.func @along
// CHECK:         callee = @dense, {{.*}} tensor<64x32xf32>>
// TF32-LABEL:  func.func @along
// TF32:          callee = @dense, {{.*}} tensor<64x32xf32>>
func.func @along(%x: tensor<8x32xf32>) -> tensor<8x64xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<64x32xf32>} : () -> tensor<64x32xf32>
  %0 = "relax.nn_dense"(%x, %w) {out_dtype} : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// -----

// Rows of 67 elements are not aligned to 16 bytes: columns of 32 would be, columns of 30 would not.
// CHECK-LABEL: func.func @anywhere
// CHECK:         "relax.constant"() {{.*}} tensor<67x32xf32>
// CHECK:         "relax.constant"() {{.*}} tensor<30x67xf32>
func.func @anywhere(%x: tensor<8x32xf32>, %y: tensor<8x30xf32>) -> (tensor<8x67xf32>, tensor<8x67xf32>) {
  %w = "relax.constant"() {value = dense<0.5> : tensor<32x67xf32>} : () -> tensor<32x67xf32>
  %v = "relax.constant"() {value = dense<0.5> : tensor<30x67xf32>} : () -> tensor<30x67xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<8x32xf32>, tensor<32x67xf32>) -> tensor<8x67xf32>
  %1 = "relax.matmul"(%y, %v) {out_dtype} : (tensor<8x30xf32>, tensor<30x67xf32>) -> tensor<8x67xf32>
  return %0, %1 : tensor<8x67xf32>, tensor<8x67xf32>
}

// -----

// A GEMV: each column is reduced by a warp.
// CHECK-LABEL: func.func @vector
// CHECK:         "relax.constant"() {{.*}} tensor<64x32xf32>
// CHECK:         "relax.constant"() {{.*}} tensor<31x64xf32>
func.func @vector(%x: tensor<1x32xf32>, %y: tensor<1x31xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %w = "relax.constant"() {value = dense<0.5> : tensor<32x64xf32>} : () -> tensor<32x64xf32>
  %v = "relax.constant"() {value = dense<0.5> : tensor<31x64xf32>} : () -> tensor<31x64xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<1x32xf32>, tensor<32x64xf32>) -> tensor<1x64xf32>
  %1 = "relax.matmul"(%y, %v) {out_dtype} : (tensor<1x31xf32>, tensor<31x64xf32>) -> tensor<1x64xf32>
  return %0, %1 : tensor<1x64xf32>, tensor<1x64xf32>
}
