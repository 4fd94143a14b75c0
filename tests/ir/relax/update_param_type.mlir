// RUN: relax-opt %s -p relax-update-param-type | filecheck %s

// Pipeline text has no types: parameters keep theirs.
// CHECK-LABEL: func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
