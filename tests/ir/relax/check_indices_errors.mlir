// RUN: relax-opt %s -p relax-check-indices --expect-error --split-input-file | filecheck %s

// A constant index out of range is an error, with its location.
// CHECK: error: {{.*}} (relax.take): operand `indices`: index out of range at [1]: expected -5 to 4, got 5
func.func @main(%x: tensor<5xf32>) -> tensor<2xf32> {
  %i = "relax.constant"() {value = dense<[4, 5]> : tensor<2xi64>} : () -> tensor<2xi64>
  %y = "relax.take"(%x, %i) {axis = 0 : i64, mode = "fast"} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
