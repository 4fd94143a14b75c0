// RUN: relax-opt %s -p relax-fold-constants --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-fold-constants{max-growth-bytes=80} --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-fold-constants{max-growth-bytes=79} --split-input-file | filecheck %s --check-prefix=SMALL

// Operations on constants are evaluated.
// CHECK-LABEL: func.func @known
// CHECK-NOT:     relax.add
// CHECK:         value = dense<[4.000000e+00, 6.000000e+00]>
func.func @known() -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "relax.constant"() {value = dense<[3.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %2 = "relax.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// A result of 128 bytes from operands of 48 grows by 80; above the limit, it stays.
// CHECK-LABEL: func.func @grows
// CHECK-NOT:     relax.add
// SMALL-LABEL: func.func @grows
// SMALL:         relax.add
// SMALL-NEXT:    return
func.func @grows() -> tensor<4x8xf32> {
  %0 = "relax.constant"() {value = dense<1.0> : tensor<4x1xf32>} : () -> tensor<4x1xf32>
  %1 = "relax.constant"() {value = dense<2.0> : tensor<8xf32>} : () -> tensor<8xf32>
  %2 = "relax.add"(%0, %1) : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// The elements of a tuple count together.
// CHECK-LABEL: func.func @tuple
// CHECK-NOT:     relax.concat
// CHECK:         value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>
func.func @tuple() -> tensor<3xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "relax.constant"() {value = dense<3.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %2 = builtin.unrealized_conversion_cast %0, %1 : tensor<2xf32>, tensor<1xf32> to tuple<tensor<2xf32>, tensor<1xf32>>
  %3 = "relax.concat"(%2) {axis = 0 : i64} : (tuple<tensor<2xf32>, tensor<1xf32>>) -> tensor<3xf32>
  return %3 : tensor<3xf32>
}

// -----

// Static sizes are constants; symbolic ones are known only at run time.
// CHECK-LABEL: func.func @sizes
// CHECK:         value = dense<[3, 5]>
// CHECK:         relax.shape_to_tensor
// CHECK:         relax.broadcast_to
func.func @sizes(%x: tensor<?xf32, #relax.shape<["n"]>>) -> (tensor<2xi64>, tensor<2xi64>, tensor<?xf32, #relax.shape<["n"]>>) {
  %0 = "relax.shape_to_tensor"() {dims = #relax.shape<["3", "5"]>} : () -> tensor<2xi64>
  %1 = "relax.shape_to_tensor"() {dims = #relax.shape<["n", "5"]>} : () -> tensor<2xi64>
  %2 = "relax.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "relax.broadcast_to"(%2) {shape = #relax.shape<["n"]>} : (tensor<f32>) -> tensor<?xf32, #relax.shape<["n"]>>
  return %0, %1, %3 : tensor<2xi64>, tensor<2xi64>, tensor<?xf32, #relax.shape<["n"]>>
}

// -----

// A foreign function may have side effects.
// CHECK-LABEL: func.func @foreign
// CHECK:         relax.call_dps_packed
func.func @foreign() -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = builtin.unrealized_conversion_cast %0 : tensor<2xf32> to tuple<tensor<2xf32>>
  %2 = "relax.call_dps_packed"(%1) {callee = "env.print"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// An input is not constant, and neither is a value computed from it.
// CHECK-LABEL: func.func @inputs
// CHECK:         relax.add
// CHECK:         relax.add
func.func @inputs(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "relax.add"(%0, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.add"(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
