// RUN: relax-opt %s -p relax-fold-constants{in-dataflow=true} | filecheck %s

// An operator in a dataflow block is folded, one outside of any stays.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = "relax.constant"() {value = dense<4.000000e+00> : tensor<2xf32>}
// CHECK-NEXT:    "relax.add"(%arg0, %[[C]])
// CHECK:         "relax.negative"(%{{.*}}) {relax.dataflow = -1 : i64
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = "relax.constant"() {value = dense<2.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "relax.add"(%c, %c) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.add"(%x, %0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.negative"(%c) {relax.dataflow = -1 : i64, relax.name = "gv1"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}
