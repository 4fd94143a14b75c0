// RUN: relax-opt %s -p relax-convert-to-dataflow | filecheck %s
// RUN: relax-opt %s -p relax-convert-to-dataflow{min-size=3} | filecheck %s --check-prefix=THREE

// Two pure bindings in a row become a block; what is returned is seen outside of it.
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
