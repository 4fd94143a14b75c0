// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-assign-layout --split-input-file | filecheck %s

// Sequences become channels-last, too.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv1d_1, {{.*}} -> tensor<1x38x256xf32>
// CHECK:         callee = @conv1d1_1, {{.*}} -> tensor<1x36x256xf32>
// CHECK-NEXT:    "relax.permute_dims"({{.*}} {axes = array<i64: 0, 2, 1>}
// CHECK-LABEL: func.func @conv1d1_1
// CHECK:         kinds = "SSSRR"
// CHECK-SAME:    static_extents = array<i64: 1, 36, 256, 256, 3>
func.func @main(%x: tensor<1x8x40xf32>, %u: tensor<256x8x3xf32>, %v: tensor<256x256x3xf32>) -> tensor<1x256x36xf32> {
  %0 = "relax.nn_conv1d"(%x, %u) {strides = array<i64: 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1>, groups = 1 : i64, data_layout = "NCW", kernel_layout = "OIW", out_layout = unit, out_dtype = unit} : (tensor<1x8x40xf32>, tensor<256x8x3xf32>) -> tensor<1x256x38xf32>
  %1 = "relax.nn_conv1d"(%0, %v) {strides = array<i64: 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1>, groups = 1 : i64, data_layout = "NCW", kernel_layout = "OIW", out_layout = unit, out_dtype = unit} : (tensor<1x256x38xf32>, tensor<256x256x3xf32>) -> tensor<1x256x36xf32>
  return %1 : tensor<1x256x36xf32>
}

// -----

// A program with two results reads the old layout; a program without images is left alone.
// CHECK-LABEL: func.func @main
// CHECK:         %[[NEW:.+]] = "relax.call_tir"({{.*}} {callee = @conv2d_1, {{.*}} -> tensor<1x7x7x256xf32>
// CHECK-NEXT:    %[[OLD:.+]] = "relax.permute_dims"(%[[NEW]])
// CHECK-NEXT:    %[[GIVEN:.+]] = builtin.unrealized_conversion_cast %[[OLD]]
// CHECK-NEXT:    "relax.call_tir"(%[[GIVEN]]) {callee = @max_pool_with_indices,
// CHECK:         callee = @matmul,
func.func @main(%x: tensor<1x256x9x9xf32>, %u: tensor<256x256x3x3xf32>, %a: tensor<3x3xf32>) -> (tensor<1x256x6x6xf32>, tensor<3x3xf32>) {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x9x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32>
  %1:2 = "relax.max_pool_with_indices"(%0) {pool_size = array<i64: 2, 2>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false, column_major = false} : (tensor<1x256x7x7xf32>) -> (tensor<1x256x6x6xf32>, tensor<1x256x6x6xi64>)
  %2 = "relax.matmul"(%a, %a) {out_dtype} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %1#0, %2 : tensor<1x256x6x6xf32>, tensor<3x3xf32>
}

// -----

// An elementwise program works in the layout of its input; its constants are transposed.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.+]] = "relax.constant"() {{.*}} : () -> tensor<1x7x7x256xf32>
// CHECK:         builtin.unrealized_conversion_cast %{{.+}}, %[[C]]
// CHECK-NEXT:    {{.*}}callee = @add_1
// CHECK-LABEL: func.func @add_1(%arg0: memref<1x7x7x256xf32>, %arg1: memref<1x7x7x256xf32>, %arg2: memref<1x7x7x256xf32>)
// CHECK:         static_extents = array<i64: 1, 7, 7, 256>
func.func @main(%x: tensor<1x256x9x9xf32>, %u: tensor<256x256x3x3xf32>, %v: tensor<256x256x1x1xf32>) -> (tensor<1x256x7x7xf32>, tensor<1x256x7x7xf32>) {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x9x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32>
  %c = "relax.constant"() {value = dense<1.0> : tensor<1x256x7x7xf32>} : () -> tensor<1x256x7x7xf32>
  %1 = "relax.add"(%0, %c) : (tensor<1x256x7x7xf32>, tensor<1x256x7x7xf32>) -> tensor<1x256x7x7xf32>
  %2 = "relax.nn_conv2d"(%1, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x7x7xf32>, tensor<256x256x1x1xf32>) -> tensor<1x256x7x7xf32>
  %3 = "relax.nn_conv2d"(%0, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x7x7xf32>, tensor<256x256x1x1xf32>) -> tensor<1x256x7x7xf32>
  return %2, %3 : tensor<1x256x7x7xf32>, tensor<1x256x7x7xf32>
}

// -----

// A sum in the old layout adds an image in the new one: that is transposed back.
// CHECK-LABEL: func.func @main
// CHECK:         %[[NEW:.+]] = "relax.call_tir"({{.*}} {callee = @conv2d_1, {{.*}} -> tensor<1x1x7x256xf32>
// CHECK-NOT:     callee
// CHECK:         %[[OLD:.+]] = "relax.permute_dims"(%[[NEW]]) {axes = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    %[[GIVEN:.+]] = builtin.unrealized_conversion_cast %arg2, %arg3, %[[OLD]]
// CHECK-NEXT:    %[[R:.+]] = "relax.call_tir"(%[[GIVEN]]) {callee = @fused_conv2d1_add, {{.*}} -> tensor<1x256x7x7xf32>
// CHECK-NEXT:    return %[[R]]
func.func @main(%x: tensor<1x256x3x9xf32>, %u: tensor<256x256x3x3xf32>, %z: tensor<1x1x7x7xf32>, %v: tensor<256x1x1x1xf32>) -> tensor<1x256x7x7xf32> {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x3x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x1x7xf32>
  %1 = "relax.nn_conv2d"(%z, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x1x7x7xf32>, tensor<256x1x1x1xf32>) -> tensor<1x256x7x7xf32>
  %2 = "relax.add"(%1, %0) : (tensor<1x256x7x7xf32>, tensor<1x256x1x7xf32>) -> tensor<1x256x7x7xf32>
  return %2 : tensor<1x256x7x7xf32>
}
