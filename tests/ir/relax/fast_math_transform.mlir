// RUN: relax-opt %s -p relax-fast-math-transform | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK:         "relax.call_tir"{{.*}}callee = @fast_exp
// CHECK:         "relax.call_tir"{{.*}}callee = @fast_tanh
// CHECK:         "relax.call_tir"{{.*}}callee = @fast_erf
// CHECK:         "relax.call_tir"{{.*}}callee = @fast_softmax
// CHECK:         "relax.sin"
func.func @main(%x: tensor<4x8xf32> {relax.name = "x"}) -> tensor<4x8xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "relax.tanh"(%0) {relax.dataflow = 0 : i64, relax.name = "b"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "relax.erf"(%1) {relax.dataflow = 0 : i64, relax.name = "c"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "relax.nn_softmax"(%2) {axis = 0 : i64, relax.dataflow = 0 : i64, relax.name = "d"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = "relax.sin"(%3) {relax.dataflow = 0 : i64, relax.name = "e", relax.output} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
