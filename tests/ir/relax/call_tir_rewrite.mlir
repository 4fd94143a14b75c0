// RUN: relax-opt %s -p relax-legalize,relax-call-tir-rewrite | filecheck %s

// The result is allocated first, and the program is called with it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[OUT:.*]] = "relax.call_operator"(%{{.*}}) {attrs = {}, operator = "relax.builtin.alloc_tensor"
// CHECK:         builtin.unrealized_conversion_cast %arg0, %[[OUT]]
// CHECK-NEXT:    "relax.call"(%{{.*}}) {callee = @tir_exp{{.*}} -> tuple<>
// CHECK-NEXT:    %[[Y:.*]] = "relax.bind"(%[[OUT]])
// CHECK-NEXT:    return %[[Y]]
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = -1 : i64, relax.name = "gv"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----
// An in-place result is the argument itself; scalars come last.
// CHECK-LABEL: func.func @in_place
// CHECK:         %[[OUT:.*]] = "relax.call_operator"(%{{.*}}) {attrs = {}, operator = "relax.builtin.alloc_tensor"
// CHECK-NEXT:    %[[N:.*]] = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "n"]>
// CHECK-NEXT:    %[[ARGS:.*]] = builtin.unrealized_conversion_cast %arg0, %[[OUT]], %[[N]]
// CHECK-NEXT:    "relax.call"(%[[ARGS]]) {callee = @f
// CHECK-NEXT:    builtin.unrealized_conversion_cast %arg0, %[[OUT]]
// CHECK-NOT:     relax.call_tir_inplace
func.func @in_place(%x: tensor<2xf32>, %s: !relax.sizes<["n"]>) -> tuple<tensor<2xf32>, tensor<3xf32>> {
  %0 = "relax.global_var"() {callee = @f} : () -> !relax.object
  %1 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.shape_expr"() : () -> !relax.sizes<["n"]>
  %3 = builtin.unrealized_conversion_cast %0, %1, %2 : !relax.object, tuple<tensor<2xf32>>, !relax.sizes<["n"]> to tuple<!relax.object, tuple<tensor<2xf32>>, !relax.sizes<["n"]>>
  %4 = "relax.call_operator"(%3) {attrs = {inplace_indices = [0, -1]}, operator = "relax.call_tir_inplace", types = [tuple<tensor<2xf32>, tensor<3xf32>>]} : (tuple<!relax.object, tuple<tensor<2xf32>>, !relax.sizes<["n"]>>) -> tuple<tensor<2xf32>, tensor<3xf32>>
  return %4 : tuple<tensor<2xf32>, tensor<3xf32>>
}

// -----
// Tuple results are passed one by one.
// CHECK-LABEL: func.func @nested
// CHECK:         %[[A:.*]] = "relax.call_operator"{{.*}} -> tensor<2xf32>
// CHECK:         %[[B:.*]] = "relax.call_operator"{{.*}} -> tensor<3xi32>
// CHECK-NEXT:    builtin.unrealized_conversion_cast %arg0, %[[A]], %[[B]]
// CHECK:         %[[INNER:.*]] = builtin.unrealized_conversion_cast %[[B]] : tensor<3xi32> to tuple<tensor<3xi32>>
// CHECK-NEXT:    builtin.unrealized_conversion_cast %[[A]], %[[INNER]]
func.func @nested(%x: tensor<2xf32>) -> tuple<tensor<2xf32>, tuple<tensor<3xi32>>> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_dps_packed"(%0) {callee = "g", relax.dataflow = -1 : i64, relax.name = "y"} : (tuple<tensor<2xf32>>) -> tuple<tensor<2xf32>, tuple<tensor<3xi32>>>
  return %1 : tuple<tensor<2xf32>, tuple<tensor<3xi32>>>
}
