// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops{max-ops=1} --split-input-file | filecheck %s --check-prefix=ONE

// The maps after a matrix product join it.
// CHECK-LABEL: func.func private @fused_matmul_add_relu
// CHECK:         callee = @matmul
// CHECK:         callee = @add
// CHECK:         callee = @relu
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    call @fused_matmul_add_relu
// CHECK-NEXT:    return
// ONE-NOT:     func.func private
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
