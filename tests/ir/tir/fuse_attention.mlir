// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention --split-input-file | filecheck %s
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention{vector-bits=512 int8-dot=true}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention,tir-to-linalg,schedule-apply{vector-bits=512} --split-input-file | filecheck %s --check-prefix=LOOPS
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention{sm=90},tir-to-linalg,schedule-apply-gpu{sm=90}" --split-input-file | filecheck %s --check-prefix=LOOPS
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention{sm=90 tf32=true}" --split-input-file | filecheck %s --check-prefix=GPU

// Two matmuls, the elementwise block after the first, and the softmax become one program with the
// same blocks.
// LOOPS-LABEL: func.func @fused_fused_matmul_multiply_softmax_matmul1
// LOOPS-SAME:    tir.rule = "Attention"
// CHECK-LABEL: func.func @fused_fused_matmul_multiply_softmax_matmul1(%arg0: memref<2x3x7x4xf32>, %arg1: memref<2x3x4x5xf32>, %arg2: memref<f32>, %arg3: memref<2x3x5x6xf32>, %arg4: memref<2x3x7x6xf32>)
// CHECK:         name = "matmul",
// CHECK:         name = "multiply",
// CHECK:         name = "max",
// CHECK:         name = "exp",
// CHECK:         name = "sum",
// CHECK:         name = "scale",
// CHECK:         name = "matmul",
// CHECK-LABEL: func.func @attention(
// CHECK-COUNT-1: relax.call_tir
// CHECK-NOT:     relax.call_tir
// CHECK:         return
func.func @attention(%q: tensor<2x3x7x4xf32>, %k: tensor<2x3x4x5xf32>, %c: tensor<f32>, %v: tensor<2x3x5x6xf32>) -> tensor<2x3x7x6xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<2x3x7x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x7x5xf32>
  %1 = "relax.multiply"(%0, %c) : (tensor<2x3x7x5xf32>, tensor<f32>) -> tensor<2x3x7x5xf32>
  %2 = "relax.nn_softmax"(%1) {axis = -1 : i64} : (tensor<2x3x7x5xf32>) -> tensor<2x3x7x5xf32>
  %3 = "relax.matmul"(%2, %v) {out_dtype} : (tensor<2x3x7x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x7x6xf32>
  return %3 : tensor<2x3x7x6xf32>
}

// -----

// A matmul belongs to one attention only.
// CHECK-LABEL: func.func @twice(
// CHECK-COUNT-3: relax.call_tir
// CHECK-NOT:     relax.call_tir
// LOOPS-LABEL: func.func @fused_matmul_softmax_matmul
// LOOPS-SAME:    tir.rule = "Attention"
// LOOPS-NOT:     tir.rule = "Attention"
// LOOPS-LABEL: func.func @twice(
func.func @twice(%q: tensor<3x7x4xf32>, %k: tensor<3x4x5xf32>, %v: tensor<3x5x5xf32>) -> tensor<3x7x5xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<3x7x4xf32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<3x7x5xf32>) -> tensor<3x7x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<3x7x5xf32>, tensor<3x5x5xf32>) -> tensor<3x7x5xf32>
  %3 = "relax.nn_softmax"(%2) {axis = -1 : i64} : (tensor<3x7x5xf32>) -> tensor<3x7x5xf32>
  %4 = "relax.matmul"(%3, %v) {out_dtype} : (tensor<3x7x5xf32>, tensor<3x5x5xf32>) -> tensor<3x7x5xf32>
  return %4 : tensor<3x7x5xf32>
}

// -----

// Symbolic sizes are supported, and equal attentions share a program.
// CHECK-LABEL: func.func @fused_matmul_softmax_matmul1{{.*}}(%arg0: memref<?x?x4xf32>
// CHECK-NOT:   func.func @fused_matmul
// CHECK-LABEL: func.func @open(
// CHECK:         callee = @[[NAME:.+]], sizes = #relax.shape<["h", "s", "t"]>
// CHECK:         callee = @[[NAME]], sizes = #relax.shape<["h", "s", "t"]>
// LOOPS-LABEL: func.func @fused_matmul_softmax_matmul1
// LOOPS-SAME:    tir.rule = "Attention"
func.func @open(%q: tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>>, %k: tensor<?x4x?xf32, #relax.shape<["h", "4", "t"]>>, %v: tensor<?x?x4xf32, #relax.shape<["h", "t", "4"]>>) -> tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>>, tensor<?x4x?xf32, #relax.shape<["h", "4", "t"]>>) -> tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>) -> tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>, tensor<?x?x4xf32, #relax.shape<["h", "t", "4"]>>) -> tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>>
  %3 = "relax.matmul"(%2, %k) {out_dtype} : (tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>>, tensor<?x4x?xf32, #relax.shape<["h", "4", "t"]>>) -> tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>
  %4 = "relax.nn_softmax"(%3) {axis = -1 : i64} : (tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>) -> tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>
  %5 = "relax.matmul"(%4, %v) {out_dtype} : (tensor<?x?x?xf32, #relax.shape<["h", "s", "t"]>>, tensor<?x?x4xf32, #relax.shape<["h", "t", "4"]>>) -> tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>>
  return %5 : tensor<?x?x4xf32, #relax.shape<["h", "s", "4"]>>
}

// -----

// Two rows are enough, and K may be up to 512.
// CHECK-LABEL: func.func @smaller(
// CHECK-COUNT-1: relax.call_tir
// CHECK-NOT:     relax.call_tir
func.func @smaller(%q: tensor<2x400xf32>, %k: tensor<400x5xf32>, %v: tensor<5x112xf32>) -> tensor<2x112xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<2x400xf32>, tensor<400x5xf32>) -> tensor<2x5xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<2x5xf32>, tensor<5x112xf32>) -> tensor<2x112xf32>
  return %2 : tensor<2x112xf32>
}

// -----

// On a GPU constants are supported, and large heads.
// CHECK-LABEL: func.func @constant(
// CHECK-COUNT-3: relax.call_tir
// GPU-LABEL: func.func @constant(
// GPU-COUNT-1: relax.call_tir
// GPU-NOT:     relax.call_tir
// GPU:         return
func.func @constant(%q: tensor<9x512xf32>, %k: tensor<512x2xf32>) -> tensor<9x2xf32> {
  %v = "relax.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<9x512xf32>, tensor<512x2xf32>) -> tensor<9x2xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<9x2xf32>) -> tensor<9x2xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<9x2xf32>, tensor<2x2xf32>) -> tensor<9x2xf32>
  return %2 : tensor<9x2xf32>
}

// -----

// It needs a softmax that can be split along the keys; on a CPU any reductions over rows are
// supported.
// CHECK-LABEL: func.func @normalised(
// CHECK-COUNT-1: relax.call_tir
// CHECK-NOT:     relax.call_tir
// CHECK:         return
// GPU-LABEL: func.func @normalised(
// GPU-COUNT-3: relax.call_tir
func.func @normalised(%q: tensor<9x4xf32>, %k: tensor<4x5xf32>, %v: tensor<5x6xf32>) -> tensor<9x6xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<9x4xf32>, tensor<4x5xf32>) -> tensor<9x5xf32>
  %1 = "relax.nn_log_softmax"(%0) {axis = -1 : i64} : (tensor<9x5xf32>) -> tensor<9x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<9x5xf32>, tensor<5x6xf32>) -> tensor<9x6xf32>
  return %2 : tensor<9x6xf32>
}

// -----

// Grouped-query attention is one program, too, with a causal mask.
// CHECK-LABEL: func.func @shared(
// CHECK-COUNT-1: relax.call_tir
// CHECK-NOT:     relax.call_tir
// LOOPS-LABEL: func.func @fused_
// LOOPS-SAME:    tir.rule = "Attention"
// LOOPS-LABEL: func.func @shared(
func.func @shared(%q: tensor<2x2x4x7x8xf32>, %k: tensor<2x2x1x8x9xf32>, %v: tensor<2x2x1x9x8xf32>) -> tensor<2x2x4x7x8xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<2x2x4x7x8xf32>, tensor<2x2x1x8x9xf32>) -> tensor<2x2x4x7x9xf32>
  %1 = "relax.causal_mask"(%0) {k = 2 : i64} : (tensor<2x2x4x7x9xf32>) -> tensor<2x2x4x7x9xf32>
  %2 = "relax.nn_softmax"(%1) {axis = -1 : i64} : (tensor<2x2x4x7x9xf32>) -> tensor<2x2x4x7x9xf32>
  %3 = "relax.matmul"(%2, %v) {out_dtype} : (tensor<2x2x4x7x9xf32>, tensor<2x2x1x9x8xf32>) -> tensor<2x2x4x7x8xf32>
  return %3 : tensor<2x2x4x7x8xf32>
}
