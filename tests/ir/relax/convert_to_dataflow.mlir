// RUN: relax-opt %s -p relax-convert-to-dataflow | filecheck %s
// RUN: relax-opt %s -p relax-convert-to-dataflow{min-size=3} | filecheck %s --check-prefix=THREE

// Two consecutive pure bindings become a block; the returned value is its output.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0) {relax.dataflow = 0 : i64, relax.name = "lv"}
// CHECK-NEXT:    "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output}
// THREE-LABEL: func.func @main
// THREE-NEXT:    "relax.exp"(%arg0) {relax.dataflow = -1 : i64, relax.name = "lv"}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = -1 : i64, relax.name = "lv"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = -1 : i64, relax.name = "gv"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// An operator with side effects separates two blocks.
// CHECK-LABEL: func.func @printing
// CHECK:         relax.dataflow = 0 : i64, relax.name = "a"
// CHECK:         relax.dataflow = 0 : i64, relax.name = "b"
// CHECK:         relax.dataflow = -1 : i64, relax.name = "_"
// CHECK:         relax.dataflow = 1 : i64, relax.name = "c"
// CHECK:         relax.dataflow = 1 : i64, relax.name = "d"
func.func @printing(%x: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32> attributes {relax.impure} {
  %0 = "relax.exp"(%x) {relax.dataflow = -1 : i64, relax.name = "a"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = -1 : i64, relax.name = "b"} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.string"() {value = "so far"} : () -> !relax.object
  %3 = builtin.unrealized_conversion_cast %2 : !relax.object to tuple<!relax.object>
  %4 = "relax.call_operator"(%3) {attrs = {}, operator = "relax.print", relax.dataflow = -1 : i64, relax.name = "_", types = []} : (tuple<!relax.object>) -> tuple<>
  %5 = "relax.tanh"(%1) {relax.dataflow = -1 : i64, relax.name = "c"} : (tensor<2xf32>) -> tensor<2xf32>
  %6 = "relax.tanh"(%5) {relax.dataflow = -1 : i64, relax.name = "d"} : (tensor<2xf32>) -> tensor<2xf32>
  return %6 : tensor<2xf32>
}
