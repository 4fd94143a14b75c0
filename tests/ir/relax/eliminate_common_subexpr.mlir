// RUN: relax-opt %s -p relax-eliminate-common-subexpr --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-eliminate-common-subexpr{call-only=true} --split-input-file | filecheck %s --check-prefix=CALLS

// The second of two equal sums becomes an alias of the first, which replaces its uses.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %0 = "relax.add"
// CHECK-NEXT:    %1 = "relax.bind"(%0) {relax.dataflow = 0 : i64, relax.name = "lv1"}
// CHECK-NEXT:    "relax.multiply"(%0, %0)
// CALLS-LABEL: func.func @main
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.add"(%x, %x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.add"(%x, %x) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.multiply"(%0, %1) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// Tuple elements count, unless the pass is limited to calls.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %0 = "relax.tuple_get_item"
// CHECK-NEXT:    "relax.bind"(%0)
// CHECK-NEXT:    "relax.add"(%0, %0)
// CALLS-LABEL: func.func @main
// CALLS-NEXT:    %0 = "relax.tuple_get_item"
// CALLS-NEXT:    %1 = "relax.tuple_get_item"
// CALLS-NEXT:    "relax.add"(%0, %1)
func.func @main(%x: tuple<tensor<2xf32>>) -> tensor<2xf32> {
  %0 = "relax.tuple_get_item"(%x) {index = 0 : i64, relax.dataflow = -1 : i64, relax.name = "a"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %1 = "relax.tuple_get_item"(%x) {index = 0 : i64, relax.dataflow = -1 : i64, relax.name = "b"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %2 = "relax.add"(%0, %1) {relax.dataflow = -1 : i64, relax.name = "c"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// A value visible only in a dataflow block is recomputed outside of it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0) {relax.dataflow = 0 : i64, relax.name = "lv"}
// CHECK-NEXT:    "relax.tanh"
// CHECK-NEXT:    "relax.exp"(%arg0) {relax.dataflow = -1 : i64, relax.name = "gv1"}
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.tanh"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.exp"(%x) {relax.dataflow = -1 : i64, relax.name = "gv1"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}

// -----

// Variables alone are merged: an unnamed operation belongs to its user, and is not a variable; named
// constants are copied.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: "relax.constant"() {relax.dataflow
// CHECK-COUNT-2: relax.exp
// CHECK-COUNT-2: relax.add
// CALLS-LABEL: func.func @main
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "relax.constant"() {value = dense<1.0> : tensor<2xf32>, relax.dataflow = 0 : i64, relax.name = "lv"} : () -> tensor<2xf32>
  %1 = "relax.constant"() {value = dense<1.0> : tensor<2xf32>, relax.dataflow = 0 : i64, relax.name = "lv1"} : () -> tensor<2xf32>
  %2 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %4 = "relax.add"(%2, %0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = "relax.add"(%3, %1) {relax.dataflow = 0 : i64, relax.name = "gv1", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %4, %5 : tensor<2xf32>, tensor<2xf32>
}

// -----

// Arguments packed in a tuple are equal if their elements are, unnamed constants by value.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = "relax.call"
// CHECK:         "relax.bind"(%[[A]])
// CHECK-NOT:     relax.call
// CALLS-LABEL: func.func @main
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = builtin.unrealized_conversion_cast %x, %0 : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %2 = "relax.call"(%1) {callee = @pure, relax.dataflow = 0 : i64, relax.name = "lv"} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %3 = "relax.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %4 = builtin.unrealized_conversion_cast %x, %3 : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %5 = "relax.call"(%4) {callee = @pure, relax.dataflow = 0 : i64, relax.name = "lv1"} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %6 = "relax.add"(%2, %5) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %6 : tensor<2xf32>
}
func.func private @pure(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.add"(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Several results that a variable names as a tuple are computed once.
// CHECK-LABEL: func.func @main
// CHECK:         arith.mulsi_extended
// CHECK-NEXT:    %[[T:.*]] = builtin.unrealized_conversion_cast
// CHECK-NOT:     arith.mulsi_extended
// CHECK:         "relax.bind"(%[[T]])
// CALLS-LABEL: func.func @main
// CALLS:         "relax.bind"
func.func @main(%x: i32) -> tuple<i32, i32> {
  %0:2 = arith.mulsi_extended %x, %x : i32
  %1 = builtin.unrealized_conversion_cast %0#0, %0#1 : i32, i32 to tuple<i32, i32> {relax.dataflow = 0 : i64, relax.name = "lv"}
  %2:2 = arith.mulsi_extended %x, %x : i32
  %3 = builtin.unrealized_conversion_cast %2#0, %2#1 : i32, i32 to tuple<i32, i32> {relax.dataflow = 0 : i64, relax.name = "gv", relax.output}
  return %3 : tuple<i32, i32>
}
