// RUN: relax-opt %s -p relax-fold-constants --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-fold-constants{max-growth-bytes=16} --split-input-file | filecheck %s --check-prefix=SMALL

// What depends on constants alone is computed.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     relax.add
// CHECK:         value = dense<[4.000000e+00, 6.000000e+00]>
func.func @main() -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "relax.constant"() {value = dense<[3.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %2 = "relax.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// A result that is much larger than its operands stays an operation.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     relax.add
// SMALL-LABEL: func.func @main
// SMALL:         relax.add
func.func @main() -> tensor<4x8xf32> {
  %0 = "relax.constant"() {value = dense<1.0> : tensor<4x1xf32>} : () -> tensor<4x1xf32>
  %1 = "relax.constant"() {value = dense<2.0> : tensor<8xf32>} : () -> tensor<8xf32>
  %2 = "relax.add"(%0, %1) : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// An input is not known.
// CHECK-LABEL: func.func @main
// CHECK:         relax.add
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "relax.add"(%0, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
