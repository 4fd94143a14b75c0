// RUN: relax-opt %s -p relax-lazy-transform-params | filecheck %s
// RUN: relax-opt %s -p 'relax-lazy-transform-params{fget-item=load}' | filecheck %s --check-prefix=LOAD
// RUN: relax-opt %s -p 'relax-lazy-transform-params{fset-item=save}' | filecheck %s --check-prefix=SAVE

// Each parameter is fetched before its first use; results are stored when they are available.
// CHECK-LABEL: func.func @transform_params()
// CHECK:         callee = "get_item"
// CHECK:         %[[A:.*]] = "relax.match_cast"
// CHECK:         "relax.exp"(%[[A]])
// CHECK:         callee = "get_item"
// CHECK:         %[[B:.*]] = "relax.match_cast"
// CHECK:         %[[Z:.*]] = "relax.add"(%{{.*}}, %[[B]])
// CHECK:         builtin.unrealized_conversion_cast %{{.*}}, %[[B]] :
// CHECK-NEXT:    {{.*}}callee = "set_item"
// CHECK:         builtin.unrealized_conversion_cast %{{.*}}, %[[Z]] :
// CHECK-NEXT:    {{.*}}callee = "set_item"
// LOAD-NOT:      get_item
// LOAD:          callee = "load"
// LOAD:          callee = "set_item"
// SAVE-NOT:      set_item
// SAVE:          callee = "get_item"
// SAVE:          callee = "save"
func.func @transform_params(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<7xf32> {relax.name = "b"}) -> tuple<tensor<3x7xf32>, tensor<7xf32>> attributes {relax.impure} {
  %0 = "relax.exp"(%a) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = builtin.unrealized_conversion_cast %1, %b : tensor<3x7xf32>, tensor<7xf32> to tuple<tensor<3x7xf32>, tensor<7xf32>> {relax.dataflow = -1 : i64, relax.name = "g"}
  return %2 : tuple<tensor<3x7xf32>, tensor<7xf32>>
}

// Other functions stay.
// CHECK-LABEL: func.func @other
// CHECK-NOT:     _item
func.func @other(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<7xf32> {relax.name = "b"}) -> tuple<tensor<3x7xf32>, tensor<7xf32>> attributes {relax.impure} {
  %0 = "relax.exp"(%a) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = builtin.unrealized_conversion_cast %1, %b : tensor<3x7xf32>, tensor<7xf32> to tuple<tensor<3x7xf32>, tensor<7xf32>> {relax.dataflow = -1 : i64, relax.name = "g"}
  return %2 : tuple<tensor<3x7xf32>, tensor<7xf32>>
}
