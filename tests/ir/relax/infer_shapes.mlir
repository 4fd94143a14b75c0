// RUN: relax-opt %s -p relax-infer-shapes --split-input-file | filecheck %s

// Dynamic dimensions of a result are inferred, symbolic ones by their symbols.
// CHECK-LABEL: func.func @open
// CHECK-SAME:    -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
// CHECK-NEXT:    "relax.matmul"(%arg0, %arg1) {{.*}} -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
// CHECK-NEXT:    "relax.exp"(%0) : {{.*}} -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
func.func @open(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>, %w: tensor<5x3xf32>) -> tensor<?x?xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5x3xf32>) -> tensor<?x?xf32>
  %1 = "relax.exp"(%0) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// -----

// A symbol becomes a number, and a number a symbol, as inferred.
// CHECK-LABEL: func.func @precision
// CHECK-SAME:    -> (tensor<5xf32>, tensor<?xf32, #relax.shape<["n"]>>)
func.func @precision(%x: tensor<5xf32>, %y: tensor<?xf32, #relax.shape<["n"]>>) -> (tensor<?xf32, #relax.shape<["n"]>>, tensor<5xf32>) {
  %0 = "relax.exp"(%x) : (tensor<5xf32>) -> tensor<?xf32, #relax.shape<["n"]>>
  %1 = "relax.exp"(%y) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<5xf32>
  return %0, %1 : tensor<?xf32, #relax.shape<["n"]>>, tensor<5xf32>
}

// -----

// A caller gets the result type of its callee, which is defined after it.
// CHECK-LABEL: func.func @caller
// CHECK-SAME:    -> tensor<2x3xf32>
// CHECK:         "relax.call"(%{{.*}}) {callee = @callee} : (tuple<tensor<2x3xf32>>) -> tensor<2x3xf32>
// CHECK-NEXT:    "relax.tanh"(%{{.*}}) : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-LABEL: func.func @callee
// CHECK-SAME:    -> tensor<2x3xf32>
func.func @caller(%x: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<2x3xf32> to tuple<tensor<2x3xf32>>
  %0 = "relax.call"(%args) {callee = @callee} : (tuple<tensor<2x3xf32>>) -> tensor<?x3xf32>
  %1 = "relax.tanh"(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}
func.func @callee(%x: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// -----

// Tuples take the types of their elements.
// CHECK-LABEL: func.func @tuples
// CHECK-NEXT:    "relax.exp"
// CHECK-NEXT:    builtin.unrealized_conversion_cast %0, %arg1 : tensor<2xf32>, tensor<3xf32> to tuple<tensor<2xf32>, tensor<3xf32>>
// CHECK-NEXT:    "relax.concat"({{.*}} -> tensor<5xf32>
func.func @tuples(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<?xf32> {
  %0 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<?xf32>
  %1 = builtin.unrealized_conversion_cast %0, %y : tensor<?xf32>, tensor<3xf32> to tuple<tensor<?xf32>, tensor<3xf32>>
  %2 = "relax.concat"(%1) {axis = 0 : i64} : (tuple<tensor<?xf32>, tensor<3xf32>>) -> tensor<?xf32>
  return %2 : tensor<?xf32>
}

// -----

// A call of a tensor program gets the type of the program's destination, in the caller's sizes.
// CHECK-LABEL: func.func @call
// CHECK-SAME:    -> tensor<?xf32, #relax.shape<["2*n"]>>
func.func @call(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<["n"]>} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func @twice(%x: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// Constants, and functions without a body, keep their types.
// CHECK-LABEL: func.func @constant
// CHECK-NEXT:    "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7xf32>
// CHECK:       func.func private @elsewhere(tensor<?xf32>) -> tensor<?xf32>
func.func @constant() -> tensor<7xf32> {
  %0 = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
func.func private @elsewhere(tensor<?xf32>) -> tensor<?xf32>
