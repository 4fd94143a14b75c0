// RUN: relax-opt %s -p relax-bind-params{func-name=main} | filecheck %s

// Pipeline text has no arrays: parameters stay.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %arg0: tensor<2x3xf32> {relax.name = "x"}
// CHECK-NEXT:    "relax.exp"(%arg0)
func.func @main(%x: tensor<2x3xf32> {relax.name = "x"}) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
