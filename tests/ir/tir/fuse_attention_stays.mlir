// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention{bf16-dot=true} --split-input-file | filecheck %s --check-prefix=DOTS
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-attention{amx=true} --split-input-file | filecheck %s --check-prefix=TILES

// Weights that are returned must be materialised, so nothing is fused.
// CHECK-LABEL: func.func @returned(
// CHECK-COUNT-3: relax.call_tir
func.func @returned(%q: tensor<3x7x4xf32>, %k: tensor<3x4x5xf32>, %v: tensor<3x5x6xf32>) -> (tensor<3x7x6xf32>, tensor<3x7x5xf32>) {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<3x7x4xf32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<3x7x5xf32>) -> tensor<3x7x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<3x7x5xf32>, tensor<3x5x6xf32>) -> tensor<3x7x6xf32>
  return %2, %1 : tensor<3x7x6xf32>, tensor<3x7x5xf32>
}

// -----

// A softmax over queries needs all rows at once.
// CHECK-LABEL: func.func @queries(
// CHECK-COUNT-3: relax.call_tir
func.func @queries(%q: tensor<3x7x4xf32>, %k: tensor<3x4x5xf32>, %v: tensor<3x5x6xf32>) -> tensor<3x7x6xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<3x7x4xf32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
  %1 = "relax.nn_softmax"(%0) {axis = 1 : i64} : (tensor<3x7x5xf32>) -> tensor<3x7x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<3x7x5xf32>, tensor<3x5x6xf32>) -> tensor<3x7x6xf32>
  return %2 : tensor<3x7x6xf32>
}

// -----

// Matmuls without a row reduction between them stay apart, too.
// CHECK-LABEL: func.func @layers(
// CHECK-COUNT-2: relax.call_tir
func.func @layers(%q: tensor<7x4xf32>, %k: tensor<4x5xf32>, %v: tensor<5x6xf32>) -> tensor<7x6xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<7x4xf32>, tensor<4x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.tanh"(%0) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<7x5xf32>, tensor<5x6xf32>) -> tensor<7x6xf32>
  return %2 : tensor<7x6xf32>
}

// -----

// External programs cannot be merged.
// CHECK-LABEL: func.func @elsewhere(
// CHECK-COUNT-3: relax.call_tir
func.func private @given(memref<3x7x5xf32>, memref<3x7x5xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64}
func.func @elsewhere(%q: tensor<3x7x4xf32>, %k: tensor<3x4x5xf32>, %v: tensor<3x5x6xf32>) -> tensor<3x7x6xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<3x7x4xf32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
  %1 = builtin.unrealized_conversion_cast %0 : tensor<3x7x5xf32> to tuple<tensor<3x7x5xf32>>
  %2 = "relax.call_tir"(%1) {callee = @given, sizes = #relax.shape<[]>} : (tuple<tensor<3x7x5xf32>>) -> tensor<3x7x5xf32>
  %3 = "relax.matmul"(%2, %v) {out_dtype} : (tensor<3x7x5xf32>, tensor<3x5x6xf32>) -> tensor<3x7x6xf32>
  return %3 : tensor<3x7x6xf32>
}

// -----

// One query has few scores: its matmuls stay as they are.
// CHECK-LABEL: func.func @step(
// CHECK-COUNT-3: relax.call_tir
func.func @step(%q: tensor<3x1x4xf32>, %k: tensor<3x4x5xf32>, %v: tensor<3x5x6xf32>) -> tensor<3x1x6xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<3x1x4xf32>, tensor<3x4x5xf32>) -> tensor<3x1x5xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<3x1x5xf32>) -> tensor<3x1x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<3x1x5xf32>, tensor<3x5x6xf32>) -> tensor<3x1x6xf32>
  return %2 : tensor<3x1x6xf32>
}

// -----

// Constants are prepacked into panels, which the rule does not read.
// CHECK-LABEL: func.func @constant(
// CHECK-COUNT-3: relax.call_tir
func.func @constant(%q: tensor<7x4xf32>, %k: tensor<4x2xf32>) -> tensor<7x2xf32> {
  %v = "relax.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<7x4xf32>, tensor<4x2xf32>) -> tensor<7x2xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<7x2xf32>) -> tensor<7x2xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<7x2xf32>, tensor<2x2xf32>) -> tensor<7x2xf32>
  return %2 : tensor<7x2xf32>
}

// -----

// Scores with K = 513 are bound by computation, not by memory.
// CHECK-LABEL: func.func @large(
// CHECK-COUNT-3: relax.call_tir
func.func @large(%q: tensor<7x400xf32>, %k: tensor<400x5xf32>, %v: tensor<5x113xf32>) -> tensor<7x113xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<7x400xf32>, tensor<400x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<7x5xf32>, tensor<5x113xf32>) -> tensor<7x113xf32>
  return %2 : tensor<7x113xf32>
}

// -----

// bf16 matmuls with dot-product instructions stay apart.
// CHECK-LABEL: func.func @narrow(
// CHECK-COUNT-1: relax.call_tir
// CHECK-NOT:     relax.call_tir
// CHECK:         return
// DOTS-LABEL: func.func @narrow(
// DOTS-COUNT-3: relax.call_tir
func.func @narrow(%q: tensor<7x4xbf16>, %k: tensor<4x6xbf16>, %v: tensor<6x8xbf16>) -> tensor<7x8xbf16> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<7x4xbf16>, tensor<4x6xbf16>) -> tensor<7x6xbf16>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<7x6xbf16>) -> tensor<7x6xbf16>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<7x6xbf16>, tensor<6x8xbf16>) -> tensor<7x8xbf16>
  return %2 : tensor<7x8xbf16>
}

// -----

// So do those with AMX.
// TILES-LABEL: func.func @heads(
// TILES-COUNT-3: relax.call_tir
func.func @heads(%q: tensor<7x32xbf16>, %k: tensor<32x16xbf16>, %v: tensor<16x32xbf16>) -> tensor<7x32xbf16> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<7x32xbf16>, tensor<32x16xbf16>) -> tensor<7x16xbf16>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<7x16xbf16>) -> tensor<7x16xbf16>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<7x16xbf16>, tensor<16x32xbf16>) -> tensor<7x32xbf16>
  return %2 : tensor<7x32xbf16>
}
