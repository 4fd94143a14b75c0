// RUN: relax-opt %s -p relax-expand-tuple-arguments | filecheck %s

// The private function takes both elements, and its caller passes them.
// CHECK-LABEL: func.func @main
// CHECK:         builtin.unrealized_conversion_cast %arg0, %arg1
// CHECK-NEXT:    "relax.call"(%0) {callee = @pair}
// CHECK-LABEL: func.func private @pair(%arg0: tensor<2xf32> {relax.name = "t_0"}, %arg1: tensor<3xf32> {relax.name = "t_1"})
// CHECK-NEXT:    return %arg1
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<3xf32> to tuple<tensor<2xf32>, tensor<3xf32>>
  %1 = builtin.unrealized_conversion_cast %0 : tuple<tensor<2xf32>, tensor<3xf32>> to tuple<tuple<tensor<2xf32>, tensor<3xf32>>>
  %2 = "relax.call"(%1) {callee = @pair} : (tuple<tuple<tensor<2xf32>, tensor<3xf32>>>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
func.func private @pair(%t: tuple<tensor<2xf32>, tensor<3xf32>> {relax.name = "t"}) -> tensor<3xf32> {
  %0 = "relax.tuple_get_item"(%t) {index = 1 : i64} : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
