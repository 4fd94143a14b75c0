// RUN: relax-opt %s -p relax-infer-shapes --split-input-file --expect-error | filecheck %s

// A static size that contradicts the operands.
// CHECK: error: {{.*}}infer_shapes_errors.mlir:6:8: `relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<2x5xf32>`. Hint:
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x5xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

// A different rank.
// CHECK: error: {{.*}}`relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<?xf32>`
func.func @main(%x: tensor<2x3xf32>) -> tensor<?xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// A different element type.
// CHECK: error: {{.*}}`relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<2x3xf16>`
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf16> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf16>
  return %0 : tensor<2x3xf16>
}

// -----

// Sizes that differ for every `n`.
// CHECK: error: {{.*}}`relax.exp`: result 0: expected `tensor<?xf32, #relax.shape<["n"]>>`, got `tensor<?xf32, #relax.shape<["n + 1"]>>`
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n + 1"]>> {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n + 1"]>>
  return %0 : tensor<?xf32, #relax.shape<["n + 1"]>>
}

// -----

// Operands that the operation does not accept.
// CHECK: error: {{.*}}`relax.add`: cannot broadcast {{.*}}
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "relax.add"(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// An argument with an unnamed dynamic dimension.
// CHECK: error: {{.*}}`relax.matmul`: `tensor<?x2xf32>` has a dynamic dimension without a name
func.func @main(%x: tensor<?x2xf32>, %y: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = "relax.matmul"(%x, %y) {out_dtype} : (tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// -----

// Argument types of a callee are fixed: a call must match them.
// CHECK: error: {{.*}}`relax.call`: argument 0 of `callee`: expected `tensor<?x3xf32>`, got `tensor<3xf32>`
func.func @main(%x: tensor<3xf32>) -> tensor<?x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %args = builtin.unrealized_conversion_cast %0 : tensor<3xf32> to tuple<tensor<3xf32>>
  %1 = "relax.call"(%args) {callee = @callee} : (tuple<tensor<3xf32>>) -> tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}
func.func private @callee(tensor<?x3xf32>) -> tensor<?x3xf32>
