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
