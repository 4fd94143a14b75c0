// RUN: relax-opt %s -p relax-lift-transform-params | filecheck %s
// RUN: relax-opt %s -p relax-lift-transform-params{consume-params=true} | filecheck %s --check-prefix=CONSUME
// RUN: relax-opt %s -p relax-lift-transform-params{shared-transform=true} | filecheck %s --check-prefix=SHARED
// RUN: relax-opt %s -p relax-lift-transform-params{shared-transform=main} | filecheck %s --check-prefix=ONE

// Operations that depend on the weight only are lifted to a function of their own.
// CHECK-LABEL: func.func @main(%arg0: tensor<2xf32> {relax.name = "x"}, %arg1: tensor<2xf32> {relax.name = "w_exp"})
// CHECK-NEXT:    "relax.add"(%arg0, %arg1)
// CHECK-LABEL: func.func @other(%arg0: tensor<3xf32> {relax.name = "y"}, %arg1: tensor<2xf32> {relax.name = "v"}, %arg2: tensor<2xf32> {relax.name = "v_exp"})
// CHECK-LABEL: func.func @main_transform_params(%arg0: tuple<tensor<2xf32>> {relax.name = "model_params"})
// CHECK-NEXT:    %0 = "relax.tuple_get_item"(%arg0)
// CHECK-NEXT:    %1 = "relax.exp"(%0)
// CHECK-NEXT:    builtin.unrealized_conversion_cast %1
// CHECK-LABEL: func.func @other_transform_params

// A weight is released after its last use.
// CONSUME-LABEL: func.func @main_transform_params
// CONSUME:         "relax.tuple_get_item"(%arg0)
// CONSUME:         tuple_reset_item
// CONSUME:         "relax.exp"

// Common work of functions is done once, and the inputs of one are passed to both.
// SHARED-LABEL: func.func @main(%arg0: tensor<2xf32> {relax.name = "x"}, %arg1: tensor<2xf32> {{.*}}, %arg2: tensor<2xf32>
// SHARED-LABEL: func.func @other(%arg0: tensor<3xf32> {relax.name = "y"}, %arg1: tensor<2xf32> {{.*}}, %arg2: tensor<2xf32>
// SHARED-LABEL: func.func @transform_params(
// SHARED-NOT:   transform_params

// Functions that are not listed stay as they are.
// ONE-LABEL:    func.func @other(%arg0: tensor<3xf32> {relax.name = "y"}, %arg1: tensor<2xf32> {relax.name = "v"}) ->
// ONE-LABEL:    func.func @transform_params(
func.func @main(%x: tensor<2xf32> {relax.name = "x"}, %w: tensor<2xf32> {relax.name = "w"}) -> tensor<2xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.exp"(%w) {relax.dataflow = 0 : i64, relax.name = "w_exp"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.add"(%x, %0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

func.func @other(%y: tensor<3xf32> {relax.name = "y"}, %v: tensor<2xf32> {relax.name = "v"}) -> tensor<7xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.exp"(%v) {relax.dataflow = 0 : i64, relax.name = "v_exp"} : (tensor<2xf32>) -> tensor<2xf32>
  %all = builtin.unrealized_conversion_cast %y, %0, %v : tensor<3xf32>, tensor<2xf32>, tensor<2xf32> to tuple<tensor<3xf32>, tensor<2xf32>, tensor<2xf32>>
  %1 = "relax.concat"(%all) {axis = 0 : i64, relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tuple<tensor<3xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<7xf32>
  return %1 : tensor<7xf32>
}
