// RUN: relax-opt %s -p relax-normalize --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-normalize{keep-script=true} --split-input-file | filecheck %s --check-prefix=SCRIPT
// RUN: relax-opt %s -p relax-normalize{entry=twice} --split-input-file | filecheck %s --check-prefix=ENTRY

// Names, calls and tuples are removed; the inputs keep their names.
// CHECK-LABEL: func.func @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK-SAME:    relax.input_names = ["x"]
// CHECK-NEXT:    %0 = "relax.exp"(%arg0) : (
// CHECK:         return %0, %0
// SCRIPT-LABEL: func.func @main
// SCRIPT:         "relax.call"
// ENTRY-LABEL: func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32>
// ENTRY-NEXT:    "relax.exp"(%arg0) : (
func.func @main(%x: tensor<2xf32> {relax.name = "x"}) -> tuple<tensor<2xf32>, tensor<2xf32>> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call"(%0) {callee = @twice, relax.dataflow = 0 : i64, relax.name = "lv"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %2 = "relax.bind"(%1) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = builtin.unrealized_conversion_cast %1, %2 : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>> {relax.name = "gv"}
  return %3 : tuple<tensor<2xf32>, tensor<2xf32>>
}
func.func @twice(%x: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A cast defines a size.
// CHECK-LABEL: func.func @main(%arg0: tensor<5xf32>) -> tensor<5xf32>
// CHECK-NEXT:    return %arg0
// SCRIPT-LABEL: func.func @main
// SCRIPT:         relax.match_cast
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<5xf32> {
  %0 = "relax.match_cast"(%x) {relax.name = "lv"} : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// If-conversion: both branches are computed, then selected.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %0 = "relax.exp"(%arg1)
// CHECK-NEXT:    %1 = "relax.tanh"(%arg1)
// CHECK-NEXT:    "relax.where"(%arg0, %0, %1)
// SCRIPT-LABEL: func.func @main
// SCRIPT:         relax.if
func.func @main(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.if"(%c) ({
    %1 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
    gpu.yield %1 : tensor<2xf32>
  }, {
    %2 = "relax.tanh"(%x) : (tensor<2xf32>) -> tensor<2xf32>
    gpu.yield %2 : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// An operator of known types becomes an operation.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
// SCRIPT-LABEL: func.func @main
// SCRIPT:         "relax.exp"(%arg0) {{.*}} : (tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_operator"(%0) {attrs = {}, operator = "relax.exp", types = [], relax.name = "gv", relax.dataflow = -1 : i64} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Adjacent dataflow blocks are merged; blocks separated by another binding are not.
// CHECK-LABEL: func.func @main
// SCRIPT-LABEL: func.func @main
// SCRIPT:         relax.dataflow = 3 : i64, relax.name = "a"
// SCRIPT:         relax.dataflow = 3 : i64, relax.name = "b"
// SCRIPT:         relax.dataflow = -1 : i64, relax.name = "c"
// SCRIPT:         relax.dataflow = 5 : i64, relax.name = "d"
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = 3 : i64, relax.name = "a", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 4 : i64, relax.name = "b", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.exp"(%1) {relax.dataflow = -1 : i64, relax.name = "c"} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "relax.exp"(%2) {relax.dataflow = 5 : i64, relax.name = "d", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
