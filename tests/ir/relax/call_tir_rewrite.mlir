// RUN: relax-opt %s -p relax-legalize,relax-call-tir-rewrite | filecheck %s

// The result is made first, and the program is called with it.
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
