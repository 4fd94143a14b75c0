// RUN: relax-opt %s -p relax-to-non-dataflow | filecheck %s

// No binding stays in a dataflow block; unnamed operations have no block.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0) {relax.dataflow = -1 : i64, relax.name = "lv"}
// CHECK-NEXT:    "relax.exp"(%0) {relax.dataflow = -1 : i64, relax.name = "gv"}
// CHECK-NEXT:    "relax.exp"(%1) : (
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.exp"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
