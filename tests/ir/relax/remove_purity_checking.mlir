// RUN: relax-opt %s -p relax-remove-purity-checking | filecheck %s

// A pure function is marked as forced pure; calls are no longer declared pure.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.attrs = {relax.force_pure = true}
// CHECK:         "relax.call_extern"(%{{.*}}) {attrs = {}, callee = "f"
// CHECK-LABEL: func.func @impure
// CHECK-NOT:     relax.force_pure
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.extern_func"() {callee = "f"} : () -> !relax.callable<[!relax.object, true]>
  %1 = builtin.unrealized_conversion_cast %0, %x : !relax.callable<[!relax.object, true]>, tensor<2xf32> to tuple<!relax.callable<[!relax.object, true]>, tensor<2xf32>>
  %2 = "relax.call_operator"(%1) {attrs = {}, operator = "relax.call_pure_packed", types = [tensor<2xf32>]} : (tuple<!relax.callable<[!relax.object, true]>, tensor<2xf32>>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func @impure(%x: tensor<2xf32>) -> tensor<2xf32> attributes {relax.impure} {
  return %x : tensor<2xf32>
}

// So is a nested function.
// CHECK-LABEL: func.func @outer
// CHECK:         "relax.function"
// CHECK:         relax.force_pure = true
// CHECK:         return
func.func @outer(%x: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32> {
  %0 = "relax.function"() ({
  ^bb0(%me: !relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>, %y: tensor<2xf32>):
    %1 = "relax.exp"(%y) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<2xf32>) -> tensor<2xf32>
    gpu.yield %1 : tensor<2xf32>
  }) {attrs = {attrs = {}, is_pure = true, params = ["y"]}, relax.dataflow = -1 : i64, relax.name = "inner"} : () -> !relax.callable<[[tensor<2xf32>], tensor<2xf32>, true]>
  return %x : tensor<2xf32>
}
