// RUN: relax-opt %s -p relax-legalize{keep-views=false},relax-annotate-tir-op-pattern | filecheck %s

// Every op pattern kind has its number.
// CHECK: @transpose({{.*}}op_pattern = 2 : i64
// CHECK: @matmul({{.*}}op_pattern = 4 : i64
// CHECK: @broadcast_to({{.*}}op_pattern = 1 : i64
// CHECK: @add({{.*}}op_pattern = 0 : i64
// CHECK: @sum({{.*}}op_pattern = 3 : i64
// CHECK: @softmax({{.*}}op_pattern = 4 : i64
// CHECK: @take({{.*}}op_pattern = 2 : i64
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %i: tensor<2xi64>) -> (tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>) {
  %0 = "relax.permute_dims"(%x) {axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %2 = "relax.broadcast_to"(%y) {shape = #relax.shape<["2", "3"]>} : (tensor<3xf32>) -> tensor<2x3xf32>
  %3 = "relax.add"(%2, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = "relax.sum"(%3) {axis = array<i64: 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<2xf32>
  %5 = "relax.nn_softmax"(%1) {axis = -1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = "relax.take"(%y, %i) {axis = 0 : i64, mode = "fast"} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %4, %5, %6 : tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>
}
