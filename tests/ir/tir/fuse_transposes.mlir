// RUN: relax-opt %s -p relax-legalize,tir-fuse-transposes --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-transposes --split-input-file | filecheck %s --check-prefix=FUSED
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-transposes,tir-fuse-transposes{parts=true} --split-input-file | filecheck %s --check-prefix=PARTS

// The matmul reads its operand in the order before the transpose.
// CHECK-LABEL: func.func @read(
// CHECK-NOT:     callee = @transpose
// CHECK:         "relax.call_tir"(%{{.+}}) {callee = @matmul_1, {{.*}} (tuple<tensor<2x7x3x4xf32>, tensor<2x3x4x5xf32>>)
// CHECK-LABEL: func.func @matmul_1(%arg0: memref<2x7x3x4xf32>, %arg1: memref<2x3x4x5xf32>, %arg2: memref<2x3x7x5xf32>)
// CHECK:         ^bb0(%[[N:.+]]: index, %[[H:.+]]: index, %[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// CHECK:         memref.load %arg0[%[[N]], %[[I]], %[[H]], %[[K]]]
func.func @read(%x: tensor<2x7x3x4xf32>, %y: tensor<2x3x4x5xf32>) -> tensor<2x3x7x5xf32> {
  %0 = "relax.permute_dims"(%x) {axes = array<i64: 0, 2, 1, 3>} : (tensor<2x7x3x4xf32>) -> tensor<2x3x7x4xf32>
  %1 = "relax.matmul"(%0, %y) {out_dtype} : (tensor<2x3x7x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x7x5xf32>
  return %1 : tensor<2x3x7x5xf32>
}

// -----

// It writes its result in the order after the transpose, for any consumer.
// CHECK-LABEL: func.func @write(
// CHECK:         %[[Y:.+]] = "relax.call_tir"(%{{.+}}) {callee = @matmul_1, {{.*}} -> tensor<2x7x3x5xf32>
// CHECK-NEXT:    relax.reshape
// CHECK-LABEL: func.func @matmul_1(%arg0: memref<2x3x7x4xf32>, %arg1: memref<2x3x4x5xf32>, %arg2: memref<2x7x3x5xf32>)
// CHECK-NOT:   @transpose
func.func @write(%x: tensor<2x3x7x4xf32>, %y: tensor<2x3x4x5xf32>) -> tensor<14x15xf32> {
  %0 = "relax.matmul"(%x, %y) {out_dtype} : (tensor<2x3x7x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x7x5xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 0, 2, 1, 3>} : (tensor<2x3x7x5xf32>) -> tensor<2x7x3x5xf32>
  %2 = "relax.reshape"(%1) {shape = #relax.shape<["14", "15"]>} : (tensor<2x7x3x5xf32>) -> tensor<14x15xf32>
  return %2 : tensor<14x15xf32>
}

// -----

// A transpose that moves the last dimension stays; so does one that the model returns.
// CHECK-LABEL: func.func @stays(
// CHECK:         callee = @transpose,
// CHECK:         callee = @transpose1,
// CHECK:         callee = @matmul,
func.func @stays(%x: tensor<3x5x4xf32>, %y: tensor<3x5x2xf32>) -> (tensor<5x3x4xf32>, tensor<3x4x2xf32>) {
  %0 = "relax.permute_dims"(%x) {axes = array<i64: 1, 0, 2>} : (tensor<3x5x4xf32>) -> tensor<5x3x4xf32>
  %1 = "relax.permute_dims"(%x) {axes = array<i64: 0, 2, 1>} : (tensor<3x5x4xf32>) -> tensor<3x4x5xf32>
  %2 = "relax.matmul"(%1, %y) {out_dtype} : (tensor<3x4x5xf32>, tensor<3x5x2xf32>) -> tensor<3x4x2xf32>
  return %0, %2 : tensor<5x3x4xf32>, tensor<3x4x2xf32>
}

// -----

// Between two elementwise programs it is folded, too, also with symbolic sizes.
// CHECK-LABEL: func.func @maps(
// CHECK-NOT:     callee = @transpose
// CHECK:         callee = @tir_exp_1
// CHECK:         callee = @tir_tanh,
// CHECK-LABEL: func.func @tir_exp_1(%arg0: memref<?x?x8xf32> {tir.shape = #relax.shape<["s0", "s1", "8"]>}, %arg1: memref<?x?x8xf32> {tir.shape = #relax.shape<["s1", "s0", "8"]>}
func.func @maps(%x: tensor<?x?x8xf32, #relax.shape<["n", "m", "8"]>>) -> tensor<?x?x8xf32, #relax.shape<["m", "n", "8"]>> {
  %0 = "relax.exp"(%x) : (tensor<?x?x8xf32, #relax.shape<["n", "m", "8"]>>) -> tensor<?x?x8xf32, #relax.shape<["n", "m", "8"]>>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 1, 0, 2>} : (tensor<?x?x8xf32, #relax.shape<["n", "m", "8"]>>) -> tensor<?x?x8xf32, #relax.shape<["m", "n", "8"]>>
  %2 = "relax.tanh"(%1) : (tensor<?x?x8xf32, #relax.shape<["m", "n", "8"]>>) -> tensor<?x?x8xf32, #relax.shape<["m", "n", "8"]>>
  return %2 : tensor<?x?x8xf32, #relax.shape<["m", "n", "8"]>>
}

// -----

// The columns of a matmul are packed into panels anyway, so they are read untransposed.
// CHECK-LABEL: func.func @columns(
// CHECK-NOT:     callee = @transpose
// CHECK:         callee = @matmul_1
// CHECK-LABEL: func.func @matmul_1(%arg0: memref<6x4xf32>, %arg1: memref<5x4xf32>, %arg2: memref<6x5xf32>)
// CHECK:         ^bb0(%[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// CHECK:         memref.load %arg1[%[[J]], %[[K]]]
func.func @columns(%x: tensor<6x4xf32>, %y: tensor<5x4xf32>) -> tensor<6x5xf32> {
  %0 = "relax.permute_dims"(%y) {axes = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype} : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}

// -----

// An elementwise program before such columns keeps its input's order; one that a model returns, or
// that keeps the last dimension, stays.
// FUSED-LABEL: func.func @fused_cast_transpose1_1(%arg0: memref<5x4xf32>, %arg1: memref<5x4xf16>)
// FUSED:         ^bb0(%[[I:.+]]: index, %[[J:.+]]: index):
// FUSED:         memref.load %arg0[%[[I]], %[[J]]]
// FUSED:         memref.store %{{.+}}, %arg1[%[[I]], %[[J]]]
// FUSED-LABEL: func.func @mapped(
// FUSED:         %[[W:.+]] = "relax.call_tir"(%{{.+}}) {callee = @fused_cast_transpose1_1, {{.*}} -> tensor<5x4xf16>
// FUSED-NEXT:    unrealized_conversion_cast %{{.+}}, %[[W]] :
// FUSED-NEXT:    callee = @matmul_1
// FUSED:         callee = @fused_cast_transpose1, {{.*}} -> tensor<4x5xf16>
// FUSED-LABEL: func.func @matmul_1(%arg0: memref<6x4xf16>, %arg1: memref<5x4xf16>, %arg2: memref<6x5xf32>)
func.func @mapped(%x: tensor<6x4xf16>, %y: tensor<5x4xf32>, %z: tensor<5x4xf32>) -> (tensor<6x5xf32>, tensor<4x5xf16>) {
  %0 = "relax.astype"(%y) {dtype = f16} : (tensor<5x4xf32>) -> tensor<5x4xf16>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 1, 0>} : (tensor<5x4xf16>) -> tensor<4x5xf16>
  %2 = "relax.matmul"(%x, %1) {out_dtype = f32} : (tensor<6x4xf16>, tensor<4x5xf16>) -> tensor<6x5xf32>
  %3 = "relax.astype"(%z) {dtype = f16} : (tensor<5x4xf32>) -> tensor<5x4xf16>
  %4 = "relax.permute_dims"(%3) {axes = array<i64: 1, 0>} : (tensor<5x4xf16>) -> tensor<4x5xf16>
  return %2, %4 : tensor<6x5xf32>, tensor<4x5xf16>
}

// -----

// A slice is not a transpose, even from the first element. With `parts`, the matmul reads
// the slice of the whole tensor, in its order there.
// PARTS-LABEL: func.func @part(
// PARTS-NOT:     slice
// PARTS:         callee = @matmul_1, {{.*}} (tuple<tensor<2x9x4xf32>, tensor<3x4x5xf32>>) -> tensor<3x2x5xf32>
// PARTS-LABEL: func.func @matmul_1(%arg0: memref<2x9x4xf32>,
// PARTS:         ^bb0(%[[H:.+]]: index, %[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// PARTS:         memref.load %arg0[%[[I]], %[[H]], %[[K]]]
// FUSED-LABEL: func.func @part(
// FUSED:         callee = @fused_strided_slice_transpose, {{.*}} -> tensor<3x2x4xf32>
// FUSED:         callee = @matmul,
func.func @part(%x: tensor<2x9x4xf32>, %y: tensor<3x4x5xf32>) -> tensor<3x2x5xf32> {
  %0 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["3"]>, strides, assume_inbound = false} : (tensor<2x9x4xf32>) -> tensor<2x3x4xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %2 = "relax.matmul"(%1, %y) {out_dtype} : (tensor<3x2x4xf32>, tensor<3x4x5xf32>) -> tensor<3x2x5xf32>
  return %2 : tensor<3x2x5xf32>
}

// -----

// Nor is a program that reads both orders, though one of them is transposed.
// FUSED-LABEL: func.func @both_orders(
// FUSED:         callee = @fused_transpose_add,
// FUSED:         callee = @matmul,
func.func @both_orders(%x: tensor<6x4xf32>, %y: tensor<4x4xf32>) -> tensor<6x4xf32> {
  %0 = "relax.permute_dims"(%y) {axes = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "relax.add"(%0, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "relax.matmul"(%x, %1) {out_dtype} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  return %2 : tensor<6x4xf32>
}

// -----

// Slices have offsets; symbolic dimensions may only be sliced whole. All consumers of a slice must
// accept it.
// PARTS-LABEL: func.func @begins(
// PARTS-NOT:     slice
// PARTS:         callee = @matmul_1,
// PARTS-LABEL: func.func @matmul_1(%arg0: memref<?x12xf32> {tir.shape = #relax.shape<["s0", "12"]>}, %arg1: memref<4x5xf32>
// PARTS:         ^bb0(%[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// PARTS:         %[[EIGHT:.+]] = arith.constant 8 : index
// PARTS:         %[[AT:.+]] = arith.addi %[[K]], %[[EIGHT]]
// PARTS:         memref.load %arg0[%[[I]], %[[AT]]]
func.func @begins(%x: tensor<?x12xf32, #relax.shape<["n", "12"]>>, %y: tensor<4x5xf32>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>> {
  %0 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["8"]>, end = #relax.shape<["12"]>, strides, assume_inbound = false} : (tensor<?x12xf32, #relax.shape<["n", "12"]>>) -> tensor<?x4xf32, #relax.shape<["n", "4"]>>
  %1 = "relax.matmul"(%0, %y) {out_dtype} : (tensor<?x4xf32, #relax.shape<["n", "4"]>>, tensor<4x5xf32>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>>
  return %1 : tensor<?x5xf32, #relax.shape<["n", "5"]>>
}

// -----

// A slice that the model returns is copied, and so is a strided slice, or a slice of a symbolic
// dimension.
// PARTS-LABEL: func.func @copied(
// PARTS:         callee = @strided_slice,
// PARTS:         callee = @strided_slice1,
// PARTS:         callee = @strided_slice2,
func.func @copied(%x: tensor<6x12xf32>, %z: tensor<?x4xf32, #relax.shape<["n", "4"]>>, %y: tensor<4x5xf32>) -> (tensor<6x4xf32>, tensor<6x5xf32>, tensor<6x5xf32>, tensor<3x5xf32>) {
  %0 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["8"]>, end = #relax.shape<["12"]>, strides, assume_inbound = false} : (tensor<6x12xf32>) -> tensor<6x4xf32>
  %1 = "relax.matmul"(%0, %y) {out_dtype} : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %2 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["8"]>, strides = array<i64: 2>, assume_inbound = false} : (tensor<6x12xf32>) -> tensor<6x4xf32>
  %3 = "relax.matmul"(%2, %y) {out_dtype} : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %4 = "relax.strided_slice"(%z) {axes = array<i64: 0>, begin = #relax.shape<["0"]>, end = #relax.shape<["3"]>, strides, assume_inbound = true} : (tensor<?x4xf32, #relax.shape<["n", "4"]>>) -> tensor<3x4xf32>
  %5 = "relax.matmul"(%4, %y) {out_dtype} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return %0, %1, %3, %5 : tensor<6x4xf32>, tensor<6x5xf32>, tensor<6x5xf32>, tensor<3x5xf32>
}
