// RUN: relax-opt %s --split-input-file --expect-error | filecheck %s
// RUN: relax-opt %s -p relax-verify --no-verify --split-input-file --expect-error | filecheck %s

// A type that is less precise than the inferred one.
// CHECK: error: invalid module: {{.*}}verify_errors.mlir:7:8: `relax.exp`: result 0: expected `tensor<2x3xf32>`, got `tensor<?x3xf32>`. Hint: `relax-infer-shapes`
func.func @main(%x: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// -----

// A size that is a different expression.
// CHECK: error: invalid module: {{.*}}`relax.exp`: result 0: expected `tensor<?xf32, #relax.shape<["n"]>>`, got `tensor<?xf32, #relax.shape<["m"]>>`
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["m"]>> {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["m"]>>
  return %0 : tensor<?xf32, #relax.shape<["m"]>>
}

// -----

// An attribute of a class that IRDL cannot constrain.
// CHECK: error: invalid module: {{.*}}`relax.permute_dims`: `axes`: expected DenseI64ArrayAttr, got `[0]`
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.permute_dims"(%x) {axes = [0]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A tuple packed from other types.
// CHECK: error: invalid module: {{.*}}`builtin.unrealized_conversion_cast`: result 0: expected `tuple<tensor<2xf32>>`, got `tuple<tensor<3xf32>>`
func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<3xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<3xf32>>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// -----

// A tuple that was not packed at all, after one that was.
// CHECK: error: invalid module: {{.*}}`relax.concat`: expected a tuple packed from values, got one from `block argument`
func.func @main(%x: tuple<tensor<2xf32>>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %y : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %1 = "relax.concat"(%x) {axis = 0 : i64} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A constant whose value has a different type.
// CHECK: error: invalid module: {{.*}}`relax.constant`: value: expected `tensor<3xf32>`, got `tensor<2xf32>`
func.func @main() -> tensor<3xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// A call of an unknown program.
// CHECK: error: invalid module: {{.*}}`relax.call_tir`: module has no tensor program `nowhere`
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @nowhere, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// An operand whose size differs from the program's buffer.
// CHECK: error: invalid module: {{.*}}`relax.call_tir`: argument 0 of `copy`: expected `tensor<5xf32>`, got `tensor<4xf32>`
func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @copy, sizes = #relax.shape<["5"]>} : (tuple<tensor<4xf32>>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}
func.func @copy(%x: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A call with one size too few.
// CHECK: error: invalid module: {{.*}}`relax.call_tir`: `copy` has 1 symbols, got 0 sizes
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @copy, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @copy(%x: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A call with one operand too few.
// CHECK: error: invalid module: {{.*}}`relax.call_tir`: `add` takes 3 buffers, got 2 operands and results
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @add, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @add(%x: memref<4xf32>, %y: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A program on another element type.
// CHECK: error: invalid module: {{.*}}`relax.call_tir`: buffer 1 of `copy` holds f32, got float64
func.func @main(%x: tensor<4xf32>) -> tensor<4xf64> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @copy, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf64>
  return %1 : tensor<4xf64>
}
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}
