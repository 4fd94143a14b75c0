// RUN: relax-opt %s -p relax-legalize{keep-views=false},relax-rewrite-dataflow-reshape | filecheck %s

// A program that only reshapes becomes a reshape; one that the block outputs stays a call.
// CHECK-LABEL:   func.func @main
// CHECK:         %[[A:.*]] = "relax.reshape"(%arg0
// CHECK:         "relax.call_tir"
// CHECK:         "relax.call_tir"(
func.func @main(%x: tensor<2x3xf32> {relax.name = "x"}) -> tensor<3x2xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["6"]>, relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<6xf32>) -> tensor<6xf32>
  %2 = "relax.reshape"(%1) {shape = #relax.shape<["3", "2"]>, relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<6xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}
