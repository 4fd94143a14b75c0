// RUN: relax-opt %s -p relax-simplify --split-input-file | filecheck %s

// Equal operations become one, and what nobody reads goes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0)
// CHECK-NEXT:    "relax.add"(%0, %0)
// CHECK-NEXT:    return %1
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "relax.tanh"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "relax.add"(%0, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// Reshapes join; one that changes nothing goes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    return %arg0
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["6"]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["2", "3"]>} : (tensor<6xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Transposes join.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.transpose"(%arg0) {permutation = array<i64: 1, 2, 0>}
// CHECK-NEXT:    return
func.func @main(%x: tensor<2x3x5xf32>) -> tensor<3x5x2xf32> {
  %0 = "relax.transpose"(%x) {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
  %1 = "relax.transpose"(%0) {permutation = array<i64: 2, 0, 1>} : (tensor<5x2x3xf32>) -> tensor<3x5x2xf32>
  return %1 : tensor<3x5x2xf32>
}
