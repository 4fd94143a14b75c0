// RUN: relax-opt %s -p relax-legalize --split-input-file | filecheck %s

// A matmul becomes one block over M, N and K.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[ARGS:.*]] = builtin.unrealized_conversion_cast %arg0, %arg1
// CHECK-NEXT:    %[[R:.*]] = "relax.call_tir"(%[[ARGS]]) {callee = @matmul, sizes = #relax.shape<["n"]>}
// CHECK-SAME:    -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
// CHECK-NEXT:    return %[[R]]
// CHECK-LABEL: func.func @matmul
// CHECK-SAME:    %arg0: memref<?x5xf32> {tir.shape = #relax.shape<["s0", "5"]>}
// CHECK-SAME:    %arg3: index {tir.symbol = "s0"}
// CHECK:         "tir.block"(%arg3)
// CHECK:           memref.store %cst, %arg2
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:         kinds = "SSR", name = "matmul"
// CHECK-SAME:    static_extents = array<i64: -1, 3, 5>
func.func @main(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>, %w: tensor<5x3xf32>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5x3xf32>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  return %0 : tensor<?x3xf32, #relax.shape<["n", "3"]>>
}

// -----

// Equal operations share a program, whatever their symbols are called.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @tir_exp, sizes = #relax.shape<["n"]>
// CHECK:         callee = @tir_exp, sizes = #relax.shape<["m"]>
// CHECK:         func.func @tir_exp
// CHECK-NOT:     func.func @tir_exp1
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>, %y: tensor<?xf32, #relax.shape<["m"]>>) -> (tensor<?xf32, #relax.shape<["n"]>>, tensor<?xf32, #relax.shape<["m"]>>) {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  %1 = "relax.exp"(%y) : (tensor<?xf32, #relax.shape<["m"]>>) -> tensor<?xf32, #relax.shape<["m"]>>
  return %0, %1 : tensor<?xf32, #relax.shape<["n"]>>, tensor<?xf32, #relax.shape<["m"]>>
}

// -----

// A reshape stays: it becomes a view.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    relax.reshape
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["6"]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// Different programs get unique names.
// CHECK-LABEL: func.func @tir_exp(
// CHECK:         callee = @tir_exp1
// CHECK:         callee = @tir_exp2
// CHECK:         callee = @tir_exp3
// CHECK:       func.func @tir_exp1
// CHECK:       func.func @tir_exp2
// CHECK:       func.func @tir_exp3
func.func @tir_exp(%x: tensor<2xf32>, %y: tensor<3xf32>, %z: tensor<5xf32>) -> (tensor<2xf32>, tensor<3xf32>, tensor<5xf32>) {
  %0 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%y) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "relax.exp"(%z) : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<3xf32>, tensor<5xf32>
}

// -----

// Several results are a tuple, accessed by index.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BOTH:.*]] = "relax.call_tir"(%{{.*}}) {callee = @max_pool_with_indices, sizes = #relax.shape<[]>}
// CHECK-SAME:    -> tuple<tensor<1x1x4xf32>, tensor<1x1x4xi64>>
// CHECK-NEXT:    %[[Y:.*]] = "relax.tuple_get_item"(%[[BOTH]]) {index = 0 : i64}
// CHECK-NEXT:    %[[I:.*]] = "relax.tuple_get_item"(%[[BOTH]]) {index = 1 : i64}
// CHECK-NEXT:    return %[[Y]], %[[I]]
func.func @main(%x: tensor<1x1x8xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xi64>) {
  %0:2 = "relax.max_pool_with_indices"(%x) {pool_size = array<i64: 2>, strides = array<i64: 2>, padding = array<i64: 0, 0>, dilation = array<i64: 1>, ceil_mode = false, column_major = false} : (tensor<1x1x8xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xi64>)
  return %0#0, %0#1 : tensor<1x1x4xf32>, tensor<1x1x4xi64>
}

// -----

// Unused elements of a tuple are not computed, if the operation can omit them; a single element is
// no tuple.
// CHECK-LABEL: func.func @main
// CHECK:         %[[Y:.*]] = "relax.call_tir"(%{{.*}}) {callee = @batch_norm, sizes = #relax.shape<[]>}
// CHECK-SAME:    -> tensor<2x3x5xf32>
// CHECK-NEXT:    return %[[Y]]
// CHECK-LABEL: func.func @batch_norm
// CHECK-SAME:    tir.num_outputs = 1 : i64
func.func @main(%x: tensor<2x3x5xf32>, %c: tensor<3xf32>) -> tensor<2x3x5xf32> {
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = false} : (tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tuple<tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// -----

// Elements after an omitted one move up.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BOTH:.*]] = "relax.call_tir"(%{{.*}}) {callee = @batch_norm, sizes = #relax.shape<[]>}
// CHECK-SAME:    -> tuple<tensor<2x3x5xf32>, tensor<3xf32>>
// CHECK-DAG:     %[[Y:.*]] = "relax.tuple_get_item"(%[[BOTH]]) {index = 0 : i64}
// CHECK-DAG:     %[[V:.*]] = "relax.tuple_get_item"(%[[BOTH]]) {index = 1 : i64}
// CHECK:         return %[[Y]], %[[V]]
func.func @main(%x: tensor<2x3x5xf32>, %c: tensor<3xf32>) -> (tensor<2x3x5xf32>, tensor<3xf32>) {
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = true} : (tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tuple<tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>>) -> tensor<2x3x5xf32>
  %2 = "relax.tuple_get_item"(%0) {index = 2 : i64} : (tuple<tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
  return %1, %2 : tensor<2x3x5xf32>, tensor<3xf32>
}

// -----

// A dimension that the program does not compute with becomes one symbol, whatever its expression.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @tir_exp, sizes = #relax.shape<["2*n + 1"]>
// CHECK-LABEL: func.func @tir_exp
// CHECK-SAME:    memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %arg1: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %arg2: index {tir.symbol = "s0"}
func.func @main(%x: tensor<?xf32, #relax.shape<["2*n + 1"]>>) -> tensor<?xf32, #relax.shape<["2*n + 1"]>> {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["2*n + 1"]>>) -> tensor<?xf32, #relax.shape<["2*n + 1"]>>
  return %0 : tensor<?xf32, #relax.shape<["2*n + 1"]>>
}

// -----

// Sizes that depend on each other stay expressions of their symbols.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @concatenate, sizes = #relax.shape<["n"]>
// CHECK-LABEL: func.func @concatenate
// CHECK-SAME:    %arg2: memref<?xf32> {tir.shape = #relax.shape<["s0 + 3"]>}
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>, %y: tensor<3xf32>) -> tensor<?xf32, #relax.shape<["n + 3"]>> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<?xf32, #relax.shape<["n"]>>, tensor<3xf32> to tuple<tensor<?xf32, #relax.shape<["n"]>>, tensor<3xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<?xf32, #relax.shape<["n"]>>, tensor<3xf32>>) -> tensor<?xf32, #relax.shape<["n + 3"]>>
  return %1 : tensor<?xf32, #relax.shape<["n + 3"]>>
}

// -----

// A symbol that only an attribute mentions is passed, too.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @shape_to_tensor, sizes = #relax.shape<["n"]>
// CHECK:         callee = @shape_to_tensor1, sizes = #relax.shape<[]>
// CHECK-LABEL: func.func @shape_to_tensor
// CHECK-SAME:    memref<2xi64> {tir.shape = #relax.shape<["2"]>}, %arg1: index {tir.symbol = "s0"}
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> (tensor<2xi64>, tensor<2xi64>) {
  %0 = "relax.shape_to_tensor"() {dims = #relax.shape<["n", "5"]>} : () -> tensor<2xi64>
  %1 = "relax.shape_to_tensor"() {dims = #relax.shape<["7", "5"]>} : () -> tensor<2xi64>
  return %0, %1 : tensor<2xi64>, tensor<2xi64>
}

// -----

// Constants and calls have no tensor program.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    relax.constant
// CHECK-NEXT:    builtin.unrealized_conversion_cast
// CHECK-NEXT:    relax.call_dps_packed
// CHECK-NEXT:    return
func.func @main() -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = builtin.unrealized_conversion_cast %0 : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.call_dps_packed"(%1) {callee = "env.f"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// A tuple of slices is one call that computes all of them.
// CHECK-LABEL: func.func @parts
// CHECK:         %[[ALL:.*]] = "relax.call_tir"
// CHECK-SAME:    callee = @split
// CHECK-SAME:    -> tuple<tensor<2x3xf32>, tensor<2x2xf32>>
// CHECK-NEXT:    "relax.tuple_get_item"(%[[ALL]]) {index = 0 : i64}
// CHECK-NEXT:    "relax.tuple_get_item"(%[[ALL]]) {index = 1 : i64}
// CHECK-LABEL: func.func @split(
// CHECK-SAME:    memref<2x5xf32>{{.*}}memref<2x3xf32>{{.*}}memref<2x2xf32>
func.func @parts(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x2xf32>) {
  %0 = "relax.split"(%x) {indices_or_sections = 2 : i64, axis = 1 : i64} : (tensor<2x5xf32>) -> tuple<tensor<2x3xf32>, tensor<2x2xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3xf32>, tensor<2x2xf32>>) -> tensor<2x3xf32>
  %2 = "relax.tuple_get_item"(%0) {index = 1 : i64} : (tuple<tensor<2x3xf32>, tensor<2x2xf32>>) -> tensor<2x2xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<2x2xf32>
}
