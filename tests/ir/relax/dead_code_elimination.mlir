// RUN: relax-opt %s -p relax-dead-code-elimination | filecheck %s
// RUN: relax-opt %s -p relax-dead-code-elimination{entry-functions=spare} | filecheck %s --check-prefix=ENTRY

// Unused bindings are removed, and then the private function that only they called.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %0 = "relax.exp"
// CHECK-NEXT:    return %0
// CHECK-NOT:   func.func
// ENTRY-LABEL: func.func @main
// ENTRY-NOT:   @called
// ENTRY:       func.func private @spare
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = builtin.unrealized_conversion_cast %0 : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.call"(%1) {callee = @called} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %3 = "relax.tanh"(%2) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @called(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func private @spare(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
