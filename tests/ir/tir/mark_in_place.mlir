// RUN: relax-opt %s -p relax-legalize,tir-collapse-loops,relax-fuse-ops,tir-fuse,tir-mark-in-place --split-input-file | filecheck %s

// A residual is read where the sum is written; the matmul's operands are read elsewhere.
// CHECK-LABEL: func.func @fused_matmul_add
// CHECK-SAME:    tir.in_place = array<i64: 2>
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %r: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "relax.add"(%0, %r) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// A row that is broadcast to all rows is read more than once.
// CHECK-LABEL: func.func @add
// CHECK-SAME:    tir.in_place = array<i64: 0>
func.func @main(%x: tensor<8x8xf32>, %r: tensor<1x8xf32>) -> tensor<8x8xf32> {
  %0 = "relax.add"(%x, %r) : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A softmax reads whole rows, and a transpose reads other elements than it writes.
// CHECK-LABEL: func.func @softmax
// CHECK-NOT:     tir.in_place
// CHECK-LABEL: func.func @transpose
// CHECK-NOT:     tir.in_place
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = "relax.nn_softmax"(%x) {axis = -1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// An argument of another type cannot be overwritten.
// CHECK-LABEL: func.func @cast
// CHECK-NOT:     tir.in_place
// CHECK-LABEL: func.func @tir_exp
// CHECK-SAME:    tir.in_place = array<i64: 0>
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>) {
  %0 = "relax.astype"(%x) {dtype = i32} : (tensor<8xf32>) -> tensor<8xi32>
  %1 = "relax.exp"(%y) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xi32>, tensor<8xf32>
}
