// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512} --split-input-file | filecheck %s

// The weight of two matmuls by the same program is packed once.
// CHECK-LABEL: func.func @twice
// CHECK:         %[[W:.+]] = "relax.constant"
// CHECK-NOT:     relax.constant
// CHECK:         builtin.unrealized_conversion_cast %arg0, %[[W]]
// CHECK-NEXT:    {{.*}}callee = @matmul_1
// CHECK:         builtin.unrealized_conversion_cast %arg1, %[[W]]
// CHECK-NEXT:    {{.*}}callee = @matmul_1
func.func @twice(%x: tensor<64x5xf32>, %y: tensor<64x5xf32>) -> (tensor<64x70xf32>, tensor<64x70xf32>) {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf32>} : () -> tensor<5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf32>, tensor<5x70xf32>) -> tensor<64x70xf32>
  %1 = "relax.matmul"(%y, %w) {out_dtype} : (tensor<64x5xf32>, tensor<5x70xf32>) -> tensor<64x70xf32>
  return %0, %1 : tensor<64x70xf32>, tensor<64x70xf32>
}

// -----

// And once more for a program with another tile; other users read it unpacked.
// CHECK-LABEL: func.func @two_tiles
// CHECK-DAG:     %[[FIRST:.+]] = "relax.constant"() {{.*}} -> tensor<2x5x48xf32>
// CHECK-DAG:     %[[SECOND:.+]] = "relax.constant"() {{.*}} -> tensor<1x5x80xf32>
// CHECK-DAG:     %[[PLAIN:.+]] = "relax.constant"() {{.*}} -> tensor<5x70xf32>
// CHECK-DAG:     builtin.unrealized_conversion_cast %arg0, %[[FIRST]]
// CHECK-DAG:     builtin.unrealized_conversion_cast %arg1, %[[SECOND]]
// CHECK-DAG:     builtin.unrealized_conversion_cast %[[PLAIN]] :
func.func @two_tiles(%x: tensor<64x5xf32>, %y: tensor<1x5xf32>) -> (tensor<64x70xf32>, tensor<1x70xf32>, tensor<5x70xf32>) {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf32>} : () -> tensor<5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf32>, tensor<5x70xf32>) -> tensor<64x70xf32>
  %1 = "relax.matmul"(%y, %w) {out_dtype} : (tensor<1x5xf32>, tensor<5x70xf32>) -> tensor<1x70xf32>
  %2 = "relax.exp"(%w) : (tensor<5x70xf32>) -> tensor<5x70xf32>
  return %0, %1, %2 : tensor<64x70xf32>, tensor<1x70xf32>, tensor<5x70xf32>
}

// -----

// A weight that the same program also adds is read in two orders, and stays.
// CHECK-LABEL: func.func @fused_matmul_add(%arg0: memref<64x64xf32>, %arg1: memref<64x64xf32>, %arg2: memref<64x64xf32>)
// CHECK-NOT:     arith.divui
// CHECK-LABEL: func.func @read_twice
// CHECK:         callee = @fused_matmul_add,
func.func @read_twice(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "relax.add"(%0, %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----

// A convolution with channels last: window rows and columns, then channels, in the order of the
// image, and panels of output channels, which are first in the weight.
// CHECK-LABEL: func.func @channels_last
// CHECK:         tensor<1x3x3x3x48xf32>
// CHECK-LABEL: func.func @conv2d_1
// CHECK:         gpu.yield
// CHECK:         ^bb0(%{{.+}}: index, %[[O:.+]]: index, %{{.+}}: index, %{{.+}}: index, %[[C:.+]]: index, %[[I:.+]]: index, %[[J:.+]]: index):
// CHECK:         %[[BLOCK:.+]] = arith.divui %[[O]]
// CHECK:         %[[PLACE:.+]] = arith.remui %[[O]]
// CHECK:         memref.load %arg1[%[[BLOCK]], %[[I]], %[[J]], %[[C]], %[[PLACE]]] : memref<1x3x3x3x48xf32>
func.func @channels_last(%x: tensor<1x7x7x3xf32>) -> tensor<1x5x5x40xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<40x3x3x3xf32>} : () -> tensor<40x3x3x3xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x7x7x3xf32>, tensor<40x3x3x3xf32>) -> tensor<1x5x5x40xf32>
  return %0 : tensor<1x5x5x40xf32>
}

// -----

// With channels first, images are the RHS, and weights the LHS.
// CHECK-LABEL: func.func @channels_second
// CHECK:         callee = @conv2d, {{.*}} tensor<40x3x3x3xf32>>
func.func @channels_second(%x: tensor<1x3x7x7xf32>) -> tensor<1x40x5x5xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<40x3x3x3xf32>} : () -> tensor<40x3x3x3xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x7x7xf32>, tensor<40x3x3x3xf32>) -> tensor<1x40x5x5xf32>
  return %0 : tensor<1x40x5x5xf32>
}

// -----

// In a depthwise convolution channels are contiguous, without panels.
// CHECK-LABEL: func.func @depthwise
// CHECK:         tensor<3x3x24xf32>
// CHECK-LABEL: func.func @conv2d_1
// CHECK:         gpu.yield
// CHECK:         ^bb0(%{{.+}}: index, %[[C:.+]]: index, %{{.+}}: index, %{{.+}}: index, %[[I:.+]]: index, %[[J:.+]]: index):
// CHECK:         memref.load %arg1[%[[I]], %[[J]], %[[C]]] : memref<3x3x24xf32>
func.func @depthwise(%x: tensor<1x7x7x24xf32>) -> tensor<1x5x5x24xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<24x1x3x3xf32>} : () -> tensor<24x1x3x3xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 24 : i64, data_layout = "NHWC", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x7x7x24xf32>, tensor<24x1x3x3xf32>) -> tensor<1x5x5x24xf32>
  return %0 : tensor<1x5x5x24xf32>
}
