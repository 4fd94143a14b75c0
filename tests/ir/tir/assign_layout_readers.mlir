// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-assign-layout --split-input-file | filecheck %s

// For images of one pixel both layouts are the same memory: a reshape converts them.
// CHECK-LABEL: func.func @main
// CHECK:         %[[PIXEL:.+]] = "relax.call_tir"({{.*}}callee = @conv2d1_1, {{.*}} -> tensor<2x1x1x4xf32>
// CHECK-NOT:     relax.permute_dims
// CHECK:         %[[BACK:.+]] = "relax.reshape"(%[[PIXEL]]) {shape = #relax.shape<["2", "4", "1", "1"]>}
// CHECK-NEXT:    return %[[BACK]]
func.func @main(%x: tensor<2x3x6x6xf32>, %v: tensor<8x3x2x2xf32>, %w: tensor<4x8x5x5xf32>) -> tensor<2x4x1x1xf32> {
  %0 = "relax.nn_conv2d"(%x, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<2x3x6x6xf32>, tensor<8x3x2x2xf32>) -> tensor<2x8x5x5xf32>
  %1 = "relax.nn_conv2d"(%0, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<2x8x5x5xf32>, tensor<4x8x5x5xf32>) -> tensor<2x4x1x1xf32>
  return %1 : tensor<2x4x1x1xf32>
}

// -----

// A small convolution with only a reshape as user keeps its layout: a transpose of the result costs
// more.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv2d, {{.*}} -> tensor<1x3x6x6xf32>
// CHECK-NEXT:    "relax.reshape"
// CHECK-LABEL: func.func @conv2d(%arg0: memref<1x2x6x6xf32>
// CHECK-NOT:     func.func
func.func @main(%x: tensor<1x2x6x6xf32>, %w: tensor<3x2x1x1xf32>) -> tensor<1x108xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x2x6x6xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x6x6xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["1", "108"]>} : (tensor<1x3x6x6xf32>) -> tensor<1x108xf32>
  return %1 : tensor<1x108xf32>
}

// -----

// A large one is converted: the reshape reads the result transposed back.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv2d_1, {{.*}} -> tensor<1x6x6x256xf32>
// CHECK-NEXT:    %[[BACK:.+]] = "relax.permute_dims"({{.*}} {axes = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    "relax.reshape"(%[[BACK]])
func.func @main(%x: tensor<1x64x8x8xf32>, %w: tensor<256x64x3x3xf32>) -> tensor<1x9216xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x64x8x8xf32>, tensor<256x64x3x3xf32>) -> tensor<1x256x6x6xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["1", "9216"]>} : (tensor<1x256x6x6xf32>) -> tensor<1x9216xf32>
  return %1 : tensor<1x9216xf32>
}

// -----

// An output of the model that costs more to transpose than to write keeps the old layout, although
// its producers and consumers have the new one. Nothing is computed twice.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv2d_1, {{.*}} -> tensor<1x7x7x256xf32>
// CHECK-NOT:     relax.permute_dims
// CHECK:         %[[FIRST:.+]] = "relax.call_tir"({{.*}} {callee = @softmax_1, {{.*}} : (tuple<tensor<1x7x7x256xf32>>) -> tensor<1x256x7x7xf32>
// CHECK-NEXT:    %[[GIVEN:.+]] = builtin.unrealized_conversion_cast %[[FIRST]], %arg1
// CHECK-NEXT:    %[[LAST:.+]] = "relax.call_tir"(%[[GIVEN]]) {callee = @conv2d1_1, {{.*}} -> tensor<1x5x5x256xf32>
// CHECK-NEXT:    %[[BACK:.+]] = "relax.permute_dims"(%[[LAST]])
// CHECK-NEXT:    return %[[FIRST]], %[[BACK]]
func.func @main(%x: tensor<1x256x9x9xf32>, %u: tensor<256x256x3x3xf32>) -> (tensor<1x256x7x7xf32>, tensor<1x256x5x5xf32>) {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x9x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32>
  %1 = "relax.nn_softmax"(%0) {axis = 1 : i64} : (tensor<1x256x7x7xf32>) -> tensor<1x256x7x7xf32>
  %3 = "relax.nn_conv2d"(%1, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x7x7xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x5x5xf32>
  return %1, %3 : tensor<1x256x7x7xf32>, tensor<1x256x5x5xf32>
}

// -----

// A value that the model returns and a reshape reads is transposed back once for both; other users
// read it as it is.
// CHECK-LABEL: func.func @main
// CHECK:         %[[NEW:.+]] = "relax.call_tir"({{.*}} {callee = @conv2d_1, {{.*}} -> tensor<1x7x7x256xf32>
// CHECK-NEXT:    %[[OLD:.+]] = "relax.permute_dims"(%[[NEW]])
// CHECK-NOT:     relax.permute_dims
// CHECK-DAG:     builtin.unrealized_conversion_cast %[[NEW]], %arg2
// CHECK-DAG:     %[[FLAT:.+]] = "relax.reshape"(%[[OLD]])
// CHECK:         %[[LAST:.+]] = "relax.permute_dims"
// CHECK-NEXT:    return %[[OLD]], %[[FLAT]], %[[LAST]]
func.func @main(%x: tensor<1x256x9x9xf32>, %u: tensor<256x256x3x3xf32>, %v: tensor<256x256x1x1xf32>) -> (tensor<1x256x7x7xf32>, tensor<1x12544xf32>, tensor<1x256x7x7xf32>) {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x9x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["1", "12544"]>} : (tensor<1x256x7x7xf32>) -> tensor<1x12544xf32>
  %2 = "relax.nn_conv2d"(%0, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x7x7xf32>, tensor<256x256x1x1xf32>) -> tensor<1x256x7x7xf32>
  return %0, %1, %2 : tensor<1x256x7x7xf32>, tensor<1x12544xf32>, tensor<1x256x7x7xf32>
}

// -----

// Constant images are transposed with the result that they are added to; one value per channel is
// read as it is.
// CHECK-LABEL: func.func @fused_conv2d_add_add1_add2_1
// CHECK-SAME:    %arg2: memref<1x7x7x256xf32>, %arg3: memref<1x7x7x1xf32>, %arg4: memref<1x256x1x1xf32>, %arg5: memref<1x7x7x256xf32>
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[WHOLE:.+]] = "relax.constant"() {{.*}} : () -> tensor<1x7x7x256xf32>
// CHECK-DAG:     %[[PLANE:.+]] = "relax.constant"() {{.*}} : () -> tensor<1x7x7x1xf32>
// CHECK-DAG:     %[[CHANNELS:.+]] = "relax.constant"() {{.*}} : () -> tensor<1x256x1x1xf32>
// CHECK:         builtin.unrealized_conversion_cast %arg0, %arg1, %[[WHOLE]], %[[PLANE]], %[[CHANNELS]]
// CHECK-NEXT:    "relax.call_tir"{{.*}}fused_conv2d_add_add1_add2_1, {{.*}} -> tensor<1x7x7x256xf32>
// CHECK-NOT:     relax.constant
func.func @main(%x: tensor<1x256x9x9xf32>, %u: tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32> {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x9x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32>
  %c = "relax.constant"() {value = dense<1.0> : tensor<1x256x7x7xf32>} : () -> tensor<1x256x7x7xf32>
  %d = "relax.constant"() {value = dense<2.0> : tensor<1x1x7x7xf32>} : () -> tensor<1x1x7x7xf32>
  %e = "relax.constant"() {value = dense<3.0> : tensor<1x256x1x1xf32>} : () -> tensor<1x256x1x1xf32>
  %1 = "relax.add"(%0, %c) : (tensor<1x256x7x7xf32>, tensor<1x256x7x7xf32>) -> tensor<1x256x7x7xf32>
  %2 = "relax.add"(%1, %d) : (tensor<1x256x7x7xf32>, tensor<1x1x7x7xf32>) -> tensor<1x256x7x7xf32>
  %3 = "relax.add"(%2, %e) : (tensor<1x256x7x7xf32>, tensor<1x256x1x1xf32>) -> tensor<1x256x7x7xf32>
  return %3 : tensor<1x256x7x7xf32>
}

// -----

// A model input that is added to a convolution is transposed: the epilogue reads it in the layout
// of the result. This is done once for two users; for images of one channel it is a reshape.
// CHECK-LABEL: func.func @main
// CHECK:         %[[GIVEN:.+]] = "relax.permute_dims"(%arg2) {axes = array<i64: 0, 2, 3, 1>}
// CHECK:         %[[PLANE:.+]] = "relax.reshape"(%arg3) {shape = #relax.shape<["1", "7", "7", "1"]>}
// CHECK:         builtin.unrealized_conversion_cast %arg0, %arg1, %[[GIVEN]], %[[PLANE]]
// CHECK-NOT:     "relax.permute_dims"(%arg2)
// CHECK:         builtin.unrealized_conversion_cast %{{.+}}, %arg4, %[[GIVEN]]
func.func @main(%x: tensor<1x256x9x9xf32>, %u: tensor<256x256x3x3xf32>, %z: tensor<1x256x7x7xf32>, %p: tensor<1x1x7x7xf32>, %v: tensor<256x256x1x1xf32>) -> tensor<1x256x7x7xf32> {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x9x9xf32>, tensor<256x256x3x3xf32>) -> tensor<1x256x7x7xf32>
  %1 = "relax.add"(%0, %z) : (tensor<1x256x7x7xf32>, tensor<1x256x7x7xf32>) -> tensor<1x256x7x7xf32>
  %2 = "relax.add"(%1, %p) : (tensor<1x256x7x7xf32>, tensor<1x1x7x7xf32>) -> tensor<1x256x7x7xf32>
  %3 = "relax.nn_conv2d"(%2, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x256x7x7xf32>, tensor<256x256x1x1xf32>) -> tensor<1x256x7x7xf32>
  %4 = "relax.add"(%3, %z) : (tensor<1x256x7x7xf32>, tensor<1x256x7x7xf32>) -> tensor<1x256x7x7xf32>
  return %4 : tensor<1x256x7x7xf32>
}
