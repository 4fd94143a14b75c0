// RUN: relax-opt %s -p relax-normalize-global-var | filecheck %s

// A function is renamed to its `global_symbol`, with its callers.
// CHECK: func.func @known
// CHECK: {callee = @known}
func.func @inner(%x: tensor<2xf32>) -> tensor<2xf32> attributes {relax.attrs = {global_symbol = "known"}} {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call"(%0) {callee = @inner} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----
// A private function is renamed on a clash, with its callers.
// CHECK: func.func private @same1
// CHECK: func.func @same(
// CHECK: {callee = @same1}
func.func private @same(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> attributes {relax.attrs = {global_symbol = "same"}} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call"(%0) {callee = @same} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
