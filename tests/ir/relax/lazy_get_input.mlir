// RUN: relax-opt %s -p relax-lazy-get-input | filecheck %s

// Parameters after the first come from a callback, by index and name.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[A:.*]]: tensor<3x7xf32> {relax.name = "a"}, %[[GET:.*]]: {{.*}} {relax.name = "fget_param"})
// CHECK-SAME:    num_input = 2
// CHECK:         "relax.exp"(%[[A]])
// CHECK:         "relax.string"() {value = "b"}
// CHECK:         %[[ANY:.*]] = "relax.call_value"(%[[GET]], %{{.*}})
// CHECK:         %[[B:.*]] = "relax.match_cast"(%[[ANY]]) {{.*}} -> tensor<7xf32>
// CHECK:         "relax.add"(%{{.*}}, %[[B]])
// CHECK-NOT:     call_value
func.func @main(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<7xf32> {relax.name = "b"}) -> tuple<tensor<3x7xf32>, tensor<7xf32>> attributes {relax.attrs = {num_input = 1 : i64}, relax.impure} {
  %0 = "relax.exp"(%a) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = builtin.unrealized_conversion_cast %1, %b : tensor<3x7xf32>, tensor<7xf32> to tuple<tensor<3x7xf32>, tensor<7xf32>>
  return %2 : tuple<tensor<3x7xf32>, tensor<7xf32>>
}

// A private function stays.
// CHECK-LABEL: func.func private @inner
// CHECK-NOT:     call_value
func.func private @inner(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<7xf32> {relax.name = "b"}) -> tuple<tensor<3x7xf32>, tensor<7xf32>> attributes {relax.impure} {
  %0 = "relax.exp"(%a) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = builtin.unrealized_conversion_cast %1, %b : tensor<3x7xf32>, tensor<7xf32> to tuple<tensor<3x7xf32>, tensor<7xf32>>
  return %2 : tuple<tensor<3x7xf32>, tensor<7xf32>>
}
