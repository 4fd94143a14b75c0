// RUN: relax-opt %s -p relax-reorder-permute-dims-after-concat | filecheck %s

// A concatenation of equal transposes becomes a transpose of the concatenation; `[1, 0]` of a
// matrix equals omitted axes.
// CHECK-LABEL: func.func @alike
// CHECK-SAME:    (%[[A:.*]]: {{.*}}, %[[B:.*]]: {{.*}})
// CHECK:         %[[P:.*]] = builtin.unrealized_conversion_cast %[[A]], %[[B]]
// CHECK:         %[[J:.*]] = "relax.concat"(%[[P]]) {axis = 0 : i64{{.*}} -> tensor<8x7xf32>
// CHECK:         "relax.permute_dims"(%[[J]]) {{.*}} -> tensor<7x8xf32>
func.func @alike(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<5x7xf32> {relax.name = "b"}) -> tensor<7x8xf32> {
  %0 = "relax.permute_dims"(%a) {axes, relax.dataflow = -1 : i64, relax.name = "u"} : (tensor<3x7xf32>) -> tensor<7x3xf32>
  %1 = "relax.permute_dims"(%b) {axes = array<i64: 1, 0>, relax.dataflow = -1 : i64, relax.name = "v"} : (tensor<5x7xf32>) -> tensor<7x5xf32>
  %2 = builtin.unrealized_conversion_cast %0, %1 : tensor<7x3xf32>, tensor<7x5xf32> to tuple<tensor<7x3xf32>, tensor<7x5xf32>>
  %3 = "relax.concat"(%2) {axis = -1 : i64, relax.dataflow = -1 : i64, relax.name = "y"} : (tuple<tensor<7x3xf32>, tensor<7x5xf32>>) -> tensor<7x8xf32>
  return %3 : tensor<7x8xf32>
}

// Different transposes stay.
// CHECK-LABEL: func.func @unlike
// CHECK:         "relax.permute_dims"
// CHECK:         "relax.permute_dims"
// CHECK:         "relax.concat"({{.*}}) {{.*}} -> tensor<3x5xf32>
// CHECK-NEXT:    return
func.func @unlike(%a: tensor<2x3xf32> {relax.name = "a"}, %b: tensor<3x3xf32> {relax.name = "b"}) -> tensor<3x5xf32> {
  %0 = "relax.permute_dims"(%a) {axes = array<i64: 1, 0>, relax.dataflow = -1 : i64, relax.name = "u"} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "relax.permute_dims"(%b) {axes = array<i64: 0, 1>, relax.dataflow = -1 : i64, relax.name = "v"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = builtin.unrealized_conversion_cast %0, %1 : tensor<3x2xf32>, tensor<3x3xf32> to tuple<tensor<3x2xf32>, tensor<3x3xf32>>
  %3 = "relax.concat"(%2) {axis = 1 : i64, relax.dataflow = -1 : i64, relax.name = "y"} : (tuple<tensor<3x2xf32>, tensor<3x3xf32>>) -> tensor<3x5xf32>
  return %3 : tensor<3x5xf32>
}
