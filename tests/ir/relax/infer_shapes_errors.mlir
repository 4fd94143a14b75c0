// RUN: relax-opt %s -p relax-infer-shapes --split-input-file --expect-error | filecheck %s

// A number that contradicts the operands.
// CHECK: error: {{.*}}infer_shapes_errors.mlir:6:8: `relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<2x5xf32>`. Hint:
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x5xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

// Another rank.
// CHECK: error: {{.*}}`relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<?xf32>`
func.func @main(%x: tensor<2x3xf32>) -> tensor<?xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// Another element type.
// CHECK: error: {{.*}}`relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<2x3xf16>`
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf16> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf16>
  return %0 : tensor<2x3xf16>
}

// -----

// Sizes that differ whatever `n` is.
// CHECK: error: {{.*}}`relax.exp`: result 0: expected `tensor<?xf32, #relax.shape<["n"]>>`, got `tensor<?xf32, #relax.shape<["n + 1"]>>`
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n + 1"]>> {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n + 1"]>>
  return %0 : tensor<?xf32, #relax.shape<["n + 1"]>>
}

// -----

// Operands that the operation does not take.
// CHECK: error: {{.*}}`relax.add`: cannot broadcast {{.*}}
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "relax.add"(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// An argument whose open size has no name tells nothing.
// CHECK: error: {{.*}}`relax.matmul`: `tensor<?x2xf32>` has a dynamic dimension without a name
func.func @main(%x: tensor<?x2xf32>, %y: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = "relax.matmul"(%x, %y) : (tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// -----

// The arguments of a callee are given: a call must have what it takes.
// CHECK: error: {{.*}}`func.call`: argument 0 of `callee`: expected `tensor<?x3xf32>`, got `tensor<2x3xf32>`
func.func @main(%x: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>
  %1 = func.call @callee(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}
func.func private @callee(tensor<?x3xf32>) -> tensor<?x3xf32>

// -----

// A program writes something else.
// CHECK: error: {{.*}}`relax.call_tir`: result 0: expected `tensor<8xf32>`, got `tensor<4xf32>`
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @twice(%x: memref<4xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A tuple of another length.
// CHECK: error: {{.*}}`builtin.unrealized_conversion_cast`: result 0: expected `tuple<tensor<2xf32>, tensor<3xf32>>`, got `tuple<tensor<2xf32>>`
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<3xf32> to tuple<tensor<2xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A tensor that was said to be no tensor.
// CHECK: error: {{.*}}`relax.tuple_get_item`: result 0: expected `tensor<2xf32>`, got `index`
func.func @main(%x: tuple<tensor<2xf32>>) -> index {
  %1 = "relax.tuple_get_item"(%x) {index = 0 : i64} : (tuple<tensor<2xf32>>) -> index
  return %1 : index
}

// -----

// The other way around.
// CHECK: error: {{.*}}`relax.tuple_get_item`: result 0: expected `index`, got `tensor<2xf32>`
func.func @main(%x: tuple<index>) -> tensor<2xf32> {
  %1 = "relax.tuple_get_item"(%x) {index = 0 : i64} : (tuple<index>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// What a call of a tensor program names is a tensor program.
// CHECK: error: {{.*}}`relax.call_tir`: module has no tensor program `plain`
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @plain, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
