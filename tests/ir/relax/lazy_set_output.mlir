// RUN: relax-opt %s -p relax-lazy-set-output | filecheck %s

// Results go to a callback: a parameter at once, a value after its binding.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[B:[a-z0-9]+]]: tensor<7xf32> {relax.name = "b"}, %[[SET:.*]]: {{.*}} {relax.name = "fset_output"})
// CHECK:         builtin.unrealized_conversion_cast %{{.*}}, %[[B]] : !relax.prim<[i64, "1"]>
// CHECK-NEXT:    "relax.call_value"(%[[SET]],
// CHECK:         %[[Z:.*]] = "relax.add"
// CHECK:         builtin.unrealized_conversion_cast %{{.*}}, %[[Z]] : !relax.prim<[i64, "0"]>
// CHECK-NEXT:    "relax.call_value"(%[[SET]],
// CHECK-NOT:     call_value
func.func @main(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<7xf32> {relax.name = "b"}) -> tuple<tensor<3x7xf32>, tensor<7xf32>> attributes {relax.impure} {
  %0 = "relax.exp"(%a) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = builtin.unrealized_conversion_cast %1, %b : tensor<3x7xf32>, tensor<7xf32> to tuple<tensor<3x7xf32>, tensor<7xf32>>
  return %2 : tuple<tensor<3x7xf32>, tensor<7xf32>>
}

// The callback is the parameter after those that are no weights. A single result needs no tuple.
// CHECK-LABEL: func.func @one
// CHECK-SAME:    (%{{.*}}: tensor<7xf32> {relax.name = "x"}, %[[SET:.*]]: {{.*}} {relax.name = "fset_output"}, %{{.*}}: tensor<7xf32> {relax.name = "w"})
// CHECK-SAME:    num_input = 2
// CHECK:         %[[Y:.*]] = "relax.add"
// CHECK:         builtin.unrealized_conversion_cast %{{.*}}, %[[Y]] : !relax.prim<[i64, "0"]>
// CHECK-NEXT:    "relax.call_value"(%[[SET]],
func.func @one(%x: tensor<7xf32> {relax.name = "x"}, %w: tensor<7xf32> {relax.name = "w"}) -> tensor<7xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.add"(%x, %w) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
