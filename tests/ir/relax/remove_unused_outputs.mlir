// RUN: relax-opt %s -p relax-remove-unused-outputs | filecheck %s

// One of three results is unused: it is removed, with the operations that only it needed.
// CHECK-LABEL: func.func @main
// CHECK:         %[[T:.*]] = "relax.call"(%{{.*}}) {callee = @three} : (tuple<tensor<2xf32>>) -> tuple<tensor<2xf32>, tensor<2xf32>>
// CHECK-NEXT:    "relax.tuple_get_item"(%[[T]]) {index = 0 : i64}
// CHECK-NEXT:    "relax.tuple_get_item"(%[[T]]) {index = 1 : i64}
// CHECK-LABEL: func.func private @three(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT:    %[[B:.*]] = "relax.tanh"(%arg0)
// CHECK-NEXT:    return %arg0, %[[B]]
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call"(%0) {callee = @three} : (tuple<tensor<2xf32>>) -> tuple<tensor<2xf32>, tensor<2xf32>, tensor<2xf32>>
  %2 = "relax.tuple_get_item"(%1) {index = 0 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %3 = "relax.tuple_get_item"(%1) {index = 2 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %4 = "relax.add"(%2, %3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %4 : tensor<2xf32>
}
func.func private @three(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.tanh"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x, %0, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
