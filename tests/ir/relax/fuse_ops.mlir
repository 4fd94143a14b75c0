// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,relax-fuse-ops --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops{max-ops=2} --split-input-file | filecheck %s --check-prefix=TWO
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops{max-ops=1} --split-input-file | filecheck %s --check-prefix=ONE

// The maps after a matrix product join it.
// CHECK-LABEL: func.func private @fused_matmul_add_relu
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK:         callee = @relu
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    call @fused_matmul_add_relu
// CHECK-NEXT:    return
// TWO-LABEL:   func.func private @fused_matmul_add
// TWO-NOT:       callee = @relu
// TWO-LABEL:   func.func @main
// TWO:           call @fused_matmul_add
// TWO:           callee = @relu
// ONE-NOT:     func.func private @fused
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>, %b: tensor<3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.matmul"(%x, %w) : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.add"(%0, %b) : (tensor<7x3xf32>, tensor<3xf32>) -> tensor<7x3xf32>
  %2 = "relax.relu"(%1) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// A value that two groups read is computed once, outside both.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @exp
// CHECK:         callee = @matmul
// CHECK:         callee = @matmul
func.func @main(%x: tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5x5xf32>) {
  %0 = "relax.exp"(%x) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %1 = "relax.matmul"(%0, %x) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  %2 = "relax.matmul"(%x, %0) : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  return %1, %2 : tensor<5x5xf32>, tensor<5x5xf32>
}

// -----

// One group has one contraction.
// CHECK-LABEL: func.func private @fused_matmul_add
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         call @fused_matmul_add
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>, %v: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.matmul"(%x, %w) : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.matmul"(%x, %v) : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %2 = "relax.add"(%0, %1) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// A value read twice inside its group stays inside: both readers are there.
// CHECK-LABEL: func.func private @fused_matmul_sigmoid_multiply
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    call @fused_matmul_sigmoid_multiply
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.matmul"(%x, %w) : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.sigmoid"(%0) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  %2 = "relax.multiply"(%0, %1) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// Maps join the map that reads them, in order; one that moves elements does too.
// CHECK-LABEL: func.func private @fused_transpose_exp_tanh
// CHECK:         callee = @transpose
// CHECK:         callee = @exp
// CHECK:         callee = @tanh
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    call @fused_transpose_exp_tanh
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "relax.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "relax.exp"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "relax.tanh"(%1) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// -----

// A map joins the reduction that reads it, but what follows a reduction does not.
// CHECK-LABEL: func.func private @fused_exp_reduce_sum
// CHECK-NOT:     func.func private
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    call @fused_exp_reduce_sum
// CHECK:         callee = @tanh
func.func @main(%x: tensor<7x5xf32>) -> tensor<7xf32> {
  %0 = "relax.exp"(%x) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = false} : (tensor<7x5xf32>) -> tensor<7xf32>
  %2 = "relax.tanh"(%1) : (tensor<7xf32>) -> tensor<7xf32>
  return %2 : tensor<7xf32>
}

// -----

// A map stays in front of a contraction, which would read it more than once.
// CHECK-NOT:   func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @exp
// CHECK:         callee = @matmul
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%0, %w) : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  return %1 : tensor<7x3xf32>
}

// -----

// A contraction takes no map that makes its result larger, or moves elements.
// CHECK-NOT:   func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK:         callee = @matmul
// CHECK:         callee = @transpose
func.func @main(%x: tensor<7x5xf32>, %v: tensor<5x1xf32>, %b: tensor<7x3xf32>, %w: tensor<5x7xf32>) -> (tensor<7x3xf32>, tensor<7x7xf32>) {
  %0 = "relax.matmul"(%x, %v) : (tensor<7x5xf32>, tensor<5x1xf32>) -> tensor<7x1xf32>
  %1 = "relax.add"(%0, %b) : (tensor<7x1xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %2 = "relax.matmul"(%x, %w) : (tensor<7x5xf32>, tensor<5x7xf32>) -> tensor<7x7xf32>
  %3 = "relax.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<7x7xf32>) -> tensor<7x7xf32>
  return %1, %3 : tensor<7x3xf32>, tensor<7x7xf32>
}

// -----

// A map that two maps read joins neither, for both would have to compute it.
// CHECK-NOT:   func.func private
// CHECK-LABEL: func.func @main
// CHECK:         callee = @exp
// CHECK:         callee = @tanh
// CHECK:         callee = @sin
func.func @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %0 = "relax.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "relax.tanh"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.sin"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  return %1, %2 : tensor<5xf32>, tensor<5xf32>
}

// -----

// A contraction whose result is returned too keeps it for itself.
// CHECK-NOT:   func.func private @fused
// CHECK-LABEL: func.func @main
// CHECK:         callee = @matmul
// CHECK:         callee = @relu
// CHECK:       func.func private @elsewhere
func.func @main(%x: tensor<7x5xf32>, %w: tensor<5x3xf32>) -> (tensor<7x3xf32>, tensor<7x3xf32>) {
  %0 = "relax.matmul"(%x, %w) : (tensor<7x5xf32>, tensor<5x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.relu"(%0) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  return %0, %1 : tensor<7x3xf32>, tensor<7x3xf32>
}
func.func private @elsewhere(tensor<3xf32>) -> tensor<3xf32>

// -----

// Elementwise maps join a result that is written in parts.
// CHECK-LABEL: func.func private @fused_concat_exp
// CHECK:         callee = @concat
// CHECK:         callee = @exp
func.func @main(%x: tensor<2x3xf32>, %y: tensor<5x3xf32>) -> tensor<7x3xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2x3xf32>, tensor<5x3xf32> to tuple<tensor<2x3xf32>, tensor<5x3xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<2x3xf32>, tensor<5x3xf32>>) -> tensor<7x3xf32>
  %2 = "relax.exp"(%1) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// What reads such a result at other places does not: it would need all of it at once.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @concat
// CHECK:         callee = @transpose
// CHECK:         callee = @reduce_sum
func.func @main(%x: tensor<2x3xf32>, %y: tensor<5x3xf32>) -> (tensor<3x7xf32>, tensor<7xf32>) {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2x3xf32>, tensor<5x3xf32> to tuple<tensor<2x3xf32>, tensor<5x3xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<2x3xf32>, tensor<5x3xf32>>) -> tensor<7x3xf32>
  %2 = "relax.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<7x3xf32>) -> tensor<3x7xf32>
  %3 = builtin.unrealized_conversion_cast %y, %x : tensor<5x3xf32>, tensor<2x3xf32> to tuple<tensor<5x3xf32>, tensor<2x3xf32>>
  %4 = "relax.concat"(%3) {axis = 0 : i64} : (tuple<tensor<5x3xf32>, tensor<2x3xf32>>) -> tensor<7x3xf32>
  %5 = "relax.reduce_sum"(%4) {axes = array<i64: 1>, keepdims = false} : (tensor<7x3xf32>) -> tensor<7xf32>
  return %2, %5 : tensor<3x7xf32>, tensor<7xf32>
}

// -----

// A mean is one reduction, its division included: maps join its input.
// CHECK-LABEL: func.func private @fused_exp_reduce_mean
// CHECK:         callee = @exp
// CHECK:         callee = @reduce_mean
func.func @main(%x: tensor<7x3xf32>) -> tensor<7xf32> {
  %0 = "relax.exp"(%x) : (tensor<7x3xf32>) -> tensor<7x3xf32>
  %1 = "relax.reduce_mean"(%0) {axes = array<i64: 1>, keepdims = false} : (tensor<7x3xf32>) -> tensor<7xf32>
  return %1 : tensor<7xf32>
}
