// RUN: relax-opt %s -p relax-lambda-lift --split-input-file | filecheck %s

// A function without captures is called by name.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.call"(%{{.*}}) {callee = @main_inner
// CHECK-LABEL: func.func private @main_inner(%arg0: tensor<2xf32> {relax.name = "y"})
// CHECK-NEXT:    "relax.exp"(%arg0)
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.function"() ({
  ^bb0(%me: !relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>, %y: tensor<2xf32>):
    %3 = "relax.exp"(%y) : (tensor<2xf32>) -> tensor<2xf32>
    gpu.yield %3 : tensor<2xf32>
  }) {attrs = {params = ["y"], is_pure = true, attrs = {}}, relax.dataflow = -1 : i64, relax.name = "inner"} : () -> !relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>
  %1 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.call_value"(%0, %1) : (!relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>, tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// One with a capture becomes a closure.
// CHECK-LABEL: func.func @main
// CHECK:         %[[F:.*]] = "relax.global_var"() {callee = @main_inner}
// CHECK:         operator = "relax.make_closure"
// CHECK:         operator = "relax.invoke_pure_closure"
// CHECK-LABEL: func.func private @main_inner(%arg0: tensor<2xf32> {relax.name = "y"}, %arg1: tensor<2xf32> {relax.name = "x"})
// CHECK-NEXT:    "relax.add"(%arg0, %arg1)
func.func @main(%x: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32> {
  %0 = "relax.function"() ({
  ^bb0(%me: !relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>, %y: tensor<2xf32>):
    %3 = "relax.add"(%y, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    gpu.yield %3 : tensor<2xf32>
  }) {attrs = {params = ["y"], is_pure = true, attrs = {}}, relax.dataflow = -1 : i64, relax.name = "inner"} : () -> !relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>
  %1 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.call_value"(%0, %1) : (!relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>, tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
