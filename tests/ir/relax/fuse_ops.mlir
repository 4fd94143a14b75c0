// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,relax-fuse-ops --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops{max-ops=2} --split-input-file | filecheck %s --check-prefix=TWO
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops{max-ops=1} --split-input-file | filecheck %s --check-prefix=ONE

// Elementwise calls after a matmul become its epilogue.
// CHECK-LABEL: func.func private @fused_matmul_add_relu
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK:         callee = @relu
// CHECK-LABEL: func.func @main
// CHECK:    "relax.call"(%{{.*}}) {callee = @fused_matmul_add_relu
// CHECK-NEXT:    return
// TWO-LABEL:   func.func private @fused_matmul_add
// TWO-NOT:       callee = @relu
// TWO-LABEL:   func.func @main
// TWO:           "relax.call"(%{{.*}}) {callee = @fused_matmul_add
// TWO:           callee = @relu
// ONE-NOT:     func.func private @fused
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>, %b: tensor<3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.add"(%0, %b) : (tensor<7x3xf32>, tensor<3xf32>) -> tensor<7x3xf32>
  %2 = "relax.nn_relu"(%1) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// A value that two groups read is computed once, outside of both.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @tir_exp
// CHECK:         callee = @matmul
// CHECK:         callee = @matmul
func.func @main(%x: tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5x5xf32>) {
  %0 = "relax.exp"(%x) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %1 = "relax.matmul"(%0, %x) {out_dtype} : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  %2 = "relax.matmul"(%x, %0) {out_dtype} : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  return %1, %2 : tensor<5x5xf32>, tensor<5x5xf32>
}

// -----

// One group has one contraction.
// CHECK-LABEL: func.func private @fused_matmul_add
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         "relax.call"(%{{.*}}) {callee = @fused_matmul_add
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>, %v: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.matmul"(%x, %v) {out_dtype} : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %2 = "relax.add"(%0, %1) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// A value used twice inside of its group is not materialised.
// CHECK-LABEL: func.func private @fused_matmul_tir_sigmoid_multiply
// CHECK-LABEL: func.func @main
// CHECK:    "relax.call"(%{{.*}}) {callee = @fused_matmul_tir_sigmoid_multiply
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.sigmoid"(%0) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  %2 = "relax.multiply"(%0, %1) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// Elementwise and injective producers are fused into their consumer, in order.
// CHECK-LABEL: func.func private @fused_transpose_tir_exp_tir_tanh
// CHECK:         callee = @transpose
// CHECK:         callee = @tir_exp
// CHECK:         callee = @tir_tanh
// CHECK-LABEL: func.func @main
// CHECK:    "relax.call"(%{{.*}}) {callee = @fused_transpose_tir_exp_tir_tanh
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "relax.permute_dims"(%x) {axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "relax.exp"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "relax.tanh"(%1) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// -----

// A producer is fused into the reduction that reads it, a consumer of a reduction is not.
// CHECK-LABEL: func.func private @fused_tir_exp_sum
// CHECK-NOT:     func.func private
// CHECK-LABEL: func.func @main
// CHECK:    "relax.call"(%{{.*}}) {callee = @fused_tir_exp_sum
// CHECK:         callee = @tir_tanh
func.func @main(%x: tensor<7x5xf32>) -> tensor<7xf32> {
  %0 = "relax.exp"(%x) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.sum"(%0) {axis = array<i64: 1>, keepdims = false} : (tensor<7x5xf32>) -> tensor<7xf32>
  %2 = "relax.tanh"(%1) : (tensor<7xf32>) -> tensor<7xf32>
  return %2 : tensor<7xf32>
}

// -----

// A producer of a contraction, which would read it more than once, stays apart.
// CHECK-NOT:   func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @tir_exp
// CHECK:         callee = @matmul
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%0, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  return %1 : tensor<7x3xf32>
}

// -----

// An epilogue does not change the shape or move elements.
// CHECK-NOT:   func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK:         callee = @matmul
// CHECK:         callee = @transpose
func.func @main(%x: tensor<7x5xf32>, %v: tensor<5x1xf32>, %b: tensor<7x3xf32>, %w: tensor<5x7xf32>) -> (tensor<7x3xf32>, tensor<7x7xf32>) {
  %0 = "relax.matmul"(%x, %v) {out_dtype} : (tensor<7x5xf32>, tensor<5x1xf32>) -> tensor<7x1xf32>
  %1 = "relax.add"(%0, %b) : (tensor<7x1xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %2 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x7xf32>) -> tensor<7x7xf32>
  %3 = "relax.permute_dims"(%2) {axes = array<i64: 1, 0>} : (tensor<7x7xf32>) -> tensor<7x7xf32>
  return %1, %3 : tensor<7x3xf32>, tensor<7x7xf32>
}

// -----

// Nor does it depend on the index; other elementwise programs may.
// CHECK-LABEL: func.func private @fused_causal_mask_tir_exp
// CHECK-NOT:     func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         callee = @fused_causal_mask_tir_exp
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x7xf32>) -> tensor<7x7xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x7xf32>) -> tensor<7x7xf32>
  %1 = "relax.causal_mask"(%0) {k = 0 : i64} : (tensor<7x7xf32>) -> tensor<7x7xf32>
  %2 = "relax.exp"(%1) : (tensor<7x7xf32>) -> tensor<7x7xf32>
  return %2 : tensor<7x7xf32>
}

// -----

// An elementwise call with two consumers is fused into neither, since both would recompute it.
// CHECK-NOT:   func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @tir_exp
// CHECK:         callee = @tir_tanh
// CHECK:         callee = @tir_sin
func.func @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %0 = "relax.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "relax.tanh"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.sin"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  return %1, %2 : tensor<5xf32>, tensor<5xf32>
}

// -----

// A contraction whose result is also returned has no epilogue.
// CHECK-NOT:   func.func private @fused
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         callee = @relu
// CHECK:       func.func private @elsewhere
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>) -> (tensor<7x3xf32>, tensor<7x3xf32>) {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.nn_relu"(%0) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  return %0, %1 : tensor<7x3xf32>, tensor<7x3xf32>
}
func.func private @elsewhere(tensor<3xf32>) -> tensor<3xf32>

// -----

// Elementwise producers are fused into a piecewise result.
// CHECK-LABEL: func.func private @fused_concatenate_tir_exp
// CHECK:         callee = @concatenate
// CHECK:         callee = @tir_exp
func.func @main(%x: tensor<2x3xf32>, %y: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2x3xf32>, tensor<5x3xf32> to tuple<tensor<2x3xf32>, tensor<5x3xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<2x3xf32>, tensor<5x3xf32>>) -> tensor<7x3xf32>
  %2 = "relax.exp"(%1) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// An injective consumer of such a result is not: it would need all of it.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @concatenate
// CHECK:         callee = @transpose
// CHECK:         callee = @sum
func.func @main(%x: tensor<2x3xf32>, %y: tensor<5x3xf32>) -> (tensor<3x7xf32>, tensor<7xf32>) {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2x3xf32>, tensor<5x3xf32> to tuple<tensor<2x3xf32>, tensor<5x3xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<2x3xf32>, tensor<5x3xf32>>) -> tensor<7x3xf32>
  %2 = "relax.permute_dims"(%1) {axes = array<i64: 1, 0>} : (tensor<7x3xf32>) -> tensor<3x7xf32>
  %3 = builtin.unrealized_conversion_cast %y, %x : tensor<5x3xf32>, tensor<2x3xf32> to tuple<tensor<5x3xf32>, tensor<2x3xf32>>
  %4 = "relax.concat"(%3) {axis = 0 : i64} : (tuple<tensor<5x3xf32>, tensor<2x3xf32>>) -> tensor<7x3xf32>
  %5 = "relax.sum"(%4) {axis = array<i64: 1>, keepdims = false} : (tensor<7x3xf32>) -> tensor<7xf32>
  return %2, %5 : tensor<3x7xf32>, tensor<7xf32>
}

// -----

// A mean is one reduction, including the division: producers of its input are fused.
// CHECK-LABEL: func.func private @fused_tir_exp_mean
// CHECK:         callee = @tir_exp
// CHECK:         callee = @mean
func.func @main(%x: tensor<7x3xf32>) -> tensor<7xf32> {
  %0 = "relax.exp"(%x) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.mean"(%0) {axis = array<i64: 1>, keepdims = false} : (tensor<7x3xf32>) -> tensor<7xf32>
  return %1 : tensor<7xf32>
}

// -----

// A row reduction that ends elementwise takes an epilogue; one that ends in a reduction does not.
// CHECK-LABEL: func.func private @fused_softmax_multiply
// CHECK:         callee = @softmax
// CHECK:         callee = @multiply
// CHECK-LABEL: func.func @main
// CHECK:    "relax.call"(%{{.*}}) {callee = @fused_softmax_multiply
// CHECK:    callee = @sum
// CHECK:    callee = @tir_exp
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %0 = "relax.nn_softmax"(%x) {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "relax.multiply"(%0, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "relax.sum"(%y) {axis = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  %3 = "relax.exp"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<4xf32>
}
