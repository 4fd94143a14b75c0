// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-assign-layout --split-input-file | filecheck %s

// Convolutions, poolings, sums and concatenations pass on channels-last images. The model's inputs
// and outputs keep the old layout.
// CHECK-LABEL: func.func @fused_conv2d1_add_1(%arg0: memref<1x6x6x8xf32>, %arg1: memref<8x8x1x1xf32>, %arg2: memref<1x6x6x8xf32>)
// CHECK:         %[[SUM:.+]] = "tir.alloc_buffer"() {shape = #relax.shape<["1", "6", "6", "8"]>}
// CHECK:         ^bb0(%[[N:.+]]: index, %[[H:.+]]: index, %[[W:.+]]: index, %[[O:.+]]: index, %[[C:.+]]: index, %[[I:.+]]: index, %[[J:.+]]: index):
// CHECK:         memref.load %arg1[%[[O]], %[[C]], %[[I]], %[[J]]]
// CHECK:         memref.store %{{.+}}, %[[SUM]][%[[N]], %[[H]], %[[W]], %[[O]]]
// CHECK:         kinds = "SSSSRRR"
// CHECK-SAME:    static_extents = array<i64: 1, 6, 6, 8, 8, 1, 1>
// CHECK-LABEL: func.func @main
// CHECK-DAG:     callee = @conv2d_1, {{.*}} : (tuple<tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32>>) -> tensor<1x7x7x8xf32>
// CHECK-DAG:     callee = @max_pool2d_1, {{.*}} -> tensor<1x6x6x8xf32>
// CHECK-DAG:     callee = @fused_conv2d1_add_1, {{.*}} -> tensor<1x6x6x8xf32>
// CHECK:         %[[BOTH:.+]] = "relax.call_tir"({{.*}}callee = @concatenate_1, {{.*}} -> tensor<1x6x6x16xf32>
// CHECK-NEXT:    %[[BACK:.+]] = "relax.permute_dims"(%[[BOTH]]) {axes = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    return %[[BACK]] : tensor<1x16x6x6xf32>
// The convolution that reads the model's input reads the old layout.
// CHECK-LABEL: func.func @conv2d_1(%arg0: memref<1x3x9x9xf32>, {{.*}}, %arg2: memref<1x7x7x8xf32>)
// CHECK:         memref.load %arg0[%{{.+}}, %[[C:.+]], %[[H:.+]], %[[W:.+]]] : memref<1x3x9x9xf32>
// CHECK-LABEL: func.func @max_pool2d_1(%arg0: memref<1x7x7x8xf32>
// Both blocks of the concatenation write contiguous channels.
// CHECK-LABEL: func.func @concatenate_1
// CHECK-COUNT-2: static_extents = array<i64: 1, 6, 6, 8>
func.func @main(%x: tensor<1x3x9x9xf32>, %u: tensor<8x3x3x3xf32>, %v: tensor<8x8x1x1xf32>) -> tensor<1x16x6x6xf32> {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x7x7xf32>
  %1 = "relax.nn_max_pool2d"(%0) {pool_size = array<i64: 2, 2>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false, count_include_pad = false, layout = "NCHW", out_layout = unit} : (tensor<1x8x7x7xf32>) -> tensor<1x8x6x6xf32>
  %2 = "relax.nn_conv2d"(%1, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x6x6xf32>
  %3 = "relax.add"(%2, %1) : (tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %p = builtin.unrealized_conversion_cast %3, %1 : tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32> to tuple<tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32>>
  %4 = "relax.concat"(%p) {axis = 1 : i64} : (tuple<tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32>>) -> tensor<1x16x6x6xf32>
  return %4 : tensor<1x16x6x6xf32>
}

// -----

// Groups: the channels of all groups are contiguous. The axes of a block are reordered to the order
// of its stores, the channels of a group last.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv2d_1, {{.*}} -> tensor<1x7x7x32xf32>
// CHECK:         callee = @conv2d1_1, {{.*}} -> tensor<1x5x5x32xf32>
// CHECK:         callee = @conv2d2_1, {{.*}} -> tensor<1x3x3x64xf32>
// CHECK-LABEL: func.func @conv2d_1
// CHECK:         ^bb0(%[[N:.+]]: index, %[[H:.+]]: index, %[[W:.+]]: index, %[[G:.+]]: index, %[[O:.+]]: index, %{{.+}}: index, %{{.+}}: index, %{{.+}}: index):
// CHECK:         %[[FIRST:.+]] = arith.muli %[[G]], %c8
// CHECK:         %[[PLACE:.+]] = arith.addi %[[FIRST]], %[[O]]
// CHECK:         memref.store %{{.+}}, %arg2[%[[N]], %[[H]], %[[W]], %[[PLACE]]]
// CHECK:         static_extents = array<i64: 1, 7, 7, 4, 8, 4, 3, 3>
// One channel each.
// CHECK-LABEL: func.func @conv2d1_1
// CHECK:         static_extents = array<i64: 1, 5, 5, 32, 3, 3>
// Two outputs per channel.
// CHECK-LABEL: func.func @conv2d2_1
// CHECK:         static_extents = array<i64: 1, 3, 3, 32, 2, 1, 3, 3>
func.func @main(%x: tensor<1x16x9x9xf32>, %u: tensor<32x4x3x3xf32>, %v: tensor<32x1x3x3xf32>, %w: tensor<64x1x3x3xf32>) -> tensor<1x64x3x3xf32> {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 4 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x16x9x9xf32>, tensor<32x4x3x3xf32>) -> tensor<1x32x7x7xf32>
  %1 = "relax.nn_conv2d"(%0, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 32 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x32x7x7xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x5x5xf32>
  %2 = "relax.nn_conv2d"(%1, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 32 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x32x5x5xf32>, tensor<64x1x3x3xf32>) -> tensor<1x64x3x3xf32>
  return %2 : tensor<1x64x3x3xf32>
}

// -----

// Symbolic sizes move with their axes.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv2d_1, {{.*}} -> tensor<?x?x?x8xf32, #relax.shape<["n", "h - 2", "w - 2", "8"]>>
// CHECK-NEXT:    %[[PICTURE:.+]] = builtin
// CHECK:         callee = @conv2d1_1, {{.*}} -> tensor<?x?x?x8xf32, #relax.shape<["n", "h - 4", "w - 4", "8"]>>
// CHECK-NEXT:    "relax.permute_dims"
// CHECK-NEXT:    return {{.*}} #relax.shape<["n", "8", "h - 4", "w - 4"]>>
// CHECK-LABEL: func.func @conv2d1_1
// CHECK-SAME:    %arg0: memref<?x?x?x8xf32> {tir.shape = #relax.shape<["[[N:s[0-9]]]", "[[H:s[0-9]]] - 2", "[[W:s[0-9]]] - 2", "8"]>}
// CHECK-SAME:    %arg2: memref<?x?x?x8xf32> {tir.shape = #relax.shape<["[[N]]", "[[H]] - 4", "[[W]] - 4", "8"]>}
// CHECK:         kinds = "SSSSRRR"
// CHECK-SAME:    static_extents = array<i64: -1, -1, -1, 8, 8, 3, 3>
func.func @main(%x: tensor<?x3x?x?xf32, #relax.shape<["n", "3", "h", "w"]>>, %u: tensor<8x3x3x3xf32>, %v: tensor<8x8x3x3xf32>) -> tensor<?x8x?x?xf32, #relax.shape<["n", "8", "h - 4", "w - 4"]>> {
  %0 = "relax.nn_conv2d"(%x, %u) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<?x3x?x?xf32, #relax.shape<["n", "3", "h", "w"]>>, tensor<8x3x3x3xf32>) -> tensor<?x8x?x?xf32, #relax.shape<["n", "8", "h - 2", "w - 2"]>>
  %1 = "relax.nn_conv2d"(%0, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<?x8x?x?xf32, #relax.shape<["n", "8", "h - 2", "w - 2"]>>, tensor<8x8x3x3xf32>) -> tensor<?x8x?x?xf32, #relax.shape<["n", "8", "h - 4", "w - 4"]>>
  return %1 : tensor<?x8x?x?xf32, #relax.shape<["n", "8", "h - 4", "w - 4"]>>
}

// -----

// One program, called with images in the old layout, and in the new one twice: two versions.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @conv2d_1, {{.*}} : (tuple<tensor<1x8x6x6xf32>, {{.*}} -> tensor<1x6x6x8xf32>
// CHECK:         callee = @conv2d_2, {{.*}} : (tuple<tensor<1x6x6x8xf32>, {{.*}} -> tensor<1x6x6x8xf32>
// CHECK:         callee = @conv2d_2, {{.*}} : (tuple<tensor<1x6x6x8xf32>, {{.*}} -> tensor<1x6x6x8xf32>
// CHECK-LABEL: func.func @conv2d_1(%arg0: memref<1x8x6x6xf32>
// CHECK-LABEL: func.func @conv2d_2(%arg0: memref<1x6x6x8xf32>
// CHECK-NOT:   func.func
func.func @main(%x: tensor<1x8x6x6xf32>, %w: tensor<8x8x1x1xf32>) -> tensor<1x8x6x6xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x6x6xf32>
  %1 = "relax.nn_conv2d"(%0, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x6x6xf32>
  %2 = "relax.nn_conv2d"(%1, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x6x6xf32>
  return %2 : tensor<1x8x6x6xf32>
}
