// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse --split-input-file | filecheck %s

// Elementwise producers are inlined into their consumer: one block, no buffer between.
// CHECK-LABEL: func.func @fused_tir_exp_add
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         math.exp
// CHECK-NEXT:    memref.load %arg1
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    memref.store
// CHECK-NOT:     tir.block
// CHECK-LABEL: func.func @main
// CHECK:         callee = @fused_tir_exp_add
// CHECK-NEXT:    return
// CHECK-NOT:   func.func
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.add"(%0, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// An expensive producer that a broadcast would recompute keeps its buffer.
// CHECK-LABEL: func.func @fused_tir_exp_add
// CHECK:         tir.alloc_buffer
// CHECK:         math.exp
// CHECK:         arith.addf
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "relax.add"(%0, %y) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Equal groups share one program, and uncalled programs are removed.
// CHECK-LABEL: func.func @fused_tir_exp_tir_tanh
// CHECK-NOT:   func.func @fused
// CHECK-NOT:   func.func @tir_exp
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "relax.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "relax.tanh"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "relax.exp"(%y) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "relax.tanh"(%2) : (tensor<3xf32>) -> tensor<3xf32>
  return %1, %3 : tensor<3xf32>, tensor<3xf32>
}

// -----

// A producer that is read twice at one point is computed once, however many consumers follow.
// CHECK-LABEL: func.func @fused_tir_exp_multiply_multiply_multiply
// CHECK:         math.exp
// CHECK-NOT:     math.exp
// CHECK-NOT:     memref.load
// CHECK:         %[[A:.+]] = arith.mulf
// CHECK-NEXT:    %[[B:.+]] = arith.mulf %[[A]], %[[A]]
// CHECK-NEXT:    arith.mulf %[[B]], %[[B]]
// CHECK-NOT:     arith.mulf
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.multiply"(%0, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "relax.multiply"(%1, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "relax.multiply"(%2, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// A block into which an expensive producer was inlined is expensive, too, and keeps its buffer.
// CHECK-LABEL: func.func @fused_tir_exp_multiply_add
// CHECK:         %[[PART:.+]] = "tir.alloc_buffer"
// CHECK-SAME:    memref<3xf32>
// CHECK:         math.exp
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         arith.mulf
// CHECK:         memref.store %{{.*}}, %[[PART]]
// CHECK:         memref.load %[[PART]]
// CHECK:         arith.addf
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "relax.multiply"(%0, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "relax.add"(%1, %y) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
