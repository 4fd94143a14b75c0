// RUN: relax-opt %s -p relax-lift-transform-params | filecheck %s

// What depends on the weight alone moves to a function of its own.
// CHECK-LABEL: func.func @main(%arg0: tensor<2xf32> {relax.name = "x"}, %arg1: tensor<2xf32> {relax.name = "w_exp"})
// CHECK-NEXT:    "relax.add"(%arg0, %arg1)
// CHECK-LABEL: func.func @main_transform_params(%arg0: tuple<tensor<2xf32>> {relax.name = "params"})
// CHECK-NEXT:    %0 = "relax.tuple_get_item"(%arg0)
// CHECK-NEXT:    %1 = "relax.exp"(%0)
// CHECK-NEXT:    builtin.unrealized_conversion_cast %1
func.func @main(%x: tensor<2xf32> {relax.name = "x"}, %w: tensor<2xf32> {relax.name = "w"}) -> tensor<2xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.exp"(%w) {relax.dataflow = 0 : i64, relax.name = "w_exp"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.add"(%x, %0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
