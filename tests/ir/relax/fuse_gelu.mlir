// RUN: relax-opt %s -p relax-fuse-gelu --split-input-file | filecheck %s

// x/2 times 1 + erf(x / sqrt 2), as exporters write it.
// CHECK-LABEL: func.func @by_division
// CHECK-NOT:     relax.erf
// CHECK:         %[[Y:.*]] = "relax.nn_gelu"(%arg0) : (tensor<2x3xf32>)
// CHECK-NEXT:    return %[[Y]]
func.func @by_division(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %root = "relax.constant"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %one = "relax.constant"() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.divide"(%x, %root) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = "relax.erf"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "relax.add"(%1, %one) : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  %3 = "relax.multiply"(%x, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "relax.multiply"(%3, %half) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// -----

// The same with multiplications only, in another order; x may itself be a sum, and the half a
// quotient.
// CHECK-LABEL: func.func @by_product
// CHECK:         %[[X:.*]] = "relax.add"
// CHECK-NEXT:    %[[Y:.*]] = "relax.nn_gelu"(%[[X]])
// CHECK-NEXT:    return %[[Y]]
func.func @by_product(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
  %root = "relax.constant"() {value = dense<0.707106769> : tensor<f32>} : () -> tensor<f32>
  %one = "relax.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %two = "relax.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %x = "relax.add"(%a, %b) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %0 = "relax.multiply"(%root, %x) : (tensor<f32>, tensor<5xf32>) -> tensor<5xf32>
  %1 = "relax.erf"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.add"(%one, %1) : (tensor<f32>, tensor<5xf32>) -> tensor<5xf32>
  %3 = "relax.divide"(%x, %two) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %4 = "relax.multiply"(%3, %2) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %4 : tensor<5xf32>
}

// -----

// tanh of a cubic polynomial, with the cube as a power or as two multiplications.
// CHECK-LABEL: func.func @tanh
// CHECK-NOT:     relax.tanh
// CHECK:         %[[P:.*]] = "relax.nn_gelu_tanh"(%arg0)
// CHECK:         %[[Q:.*]] = "relax.nn_gelu_tanh"(%[[P]])
// CHECK-NEXT:    return %[[Q]]
func.func @tanh(%x: tensor<5xf32>) -> tensor<5xf32> {
  %slope = "relax.constant"() {value = dense<0.797884583> : tensor<f32>} : () -> tensor<f32>
  %cubic = "relax.constant"() {value = dense<0.044715> : tensor<f32>} : () -> tensor<f32>
  %one = "relax.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %three = "relax.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.power"(%x, %three) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = "relax.multiply"(%0, %cubic) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %2 = "relax.add"(%x, %1) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %3 = "relax.multiply"(%2, %slope) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %4 = "relax.tanh"(%3) : (tensor<5xf32>) -> tensor<5xf32>
  %5 = "relax.add"(%4, %one) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %6 = "relax.multiply"(%x, %half) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %y = "relax.multiply"(%6, %5) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %7 = "relax.multiply"(%y, %y) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %8 = "relax.multiply"(%7, %cubic) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %9 = "relax.add"(%8, %one) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %10 = "relax.multiply"(%y, %slope) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %11 = "relax.multiply"(%10, %9) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %12 = "relax.tanh"(%11) : (tensor<5xf32>) -> tensor<5xf32>
  %13 = "relax.add"(%one, %12) : (tensor<f32>, tensor<5xf32>) -> tensor<5xf32>
  %14 = "relax.multiply"(%y, %13) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %15 = "relax.multiply"(%half, %14) : (tensor<f32>, tensor<5xf32>) -> tensor<5xf32>
  return %15 : tensor<5xf32>
}

// -----

// Another coefficient of x is another function.
// CHECK-LABEL: func.func @other_factor
// CHECK:         relax.erf
// CHECK-NOT:     relax.nn_gelu
func.func @other_factor(%x: tensor<5xf32>) -> tensor<5xf32> {
  %factor = "relax.constant"() {value = dense<0.7071> : tensor<f32>} : () -> tensor<f32>
  %one = "relax.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.multiply"(%x, %factor) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = "relax.erf"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.add"(%1, %one) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %3 = "relax.multiply"(%x, %2) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %4 = "relax.multiply"(%3, %half) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  return %4 : tensor<5xf32>
}

// -----

// The sum has another user, which would have to recompute it.
// CHECK-LABEL: func.func @read_twice
// CHECK:         relax.erf
// CHECK-NOT:     relax.nn_gelu
func.func @read_twice(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %factor = "relax.constant"() {value = dense<0.707106769> : tensor<f32>} : () -> tensor<f32>
  %one = "relax.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.multiply"(%x, %factor) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = "relax.erf"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.add"(%1, %one) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %3 = "relax.multiply"(%x, %2) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %4 = "relax.multiply"(%3, %half) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  return %2, %4 : tensor<5xf32>, tensor<5xf32>
}

// -----

// An x that is broadcast by a constant of larger shape is smaller than the result.
// CHECK-LABEL: func.func @repeated
// CHECK:         relax.erf
// CHECK-NOT:     relax.nn_gelu
func.func @repeated(%x: tensor<5xf32>) -> tensor<1x5xf32> {
  %factor = "relax.constant"() {value = dense<0.707106769> : tensor<f32>} : () -> tensor<f32>
  %one = "relax.constant"() {value = dense<1.0> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.multiply"(%x, %factor) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = "relax.erf"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.add"(%1, %one) : (tensor<5xf32>, tensor<1x1xf32>) -> tensor<1x5xf32>
  %3 = "relax.multiply"(%x, %2) : (tensor<5xf32>, tensor<1x5xf32>) -> tensor<1x5xf32>
  %4 = "relax.multiply"(%3, %half) : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x5xf32>
  return %4 : tensor<1x5xf32>
}

// -----

// In f64 the f32 constants are not exact.
// CHECK-LABEL: func.func @double
// CHECK:         relax.erf
func.func @double(%x: tensor<5xf64>) -> tensor<5xf64> {
  %factor = "relax.constant"() {value = dense<0.70710678118654752> : tensor<f64>} : () -> tensor<f64>
  %one = "relax.constant"() {value = dense<1.0> : tensor<f64>} : () -> tensor<f64>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f64>} : () -> tensor<f64>
  %0 = "relax.multiply"(%x, %factor) : (tensor<5xf64>, tensor<f64>) -> tensor<5xf64>
  %1 = "relax.erf"(%0) : (tensor<5xf64>) -> tensor<5xf64>
  %2 = "relax.add"(%1, %one) : (tensor<5xf64>, tensor<f64>) -> tensor<5xf64>
  %3 = "relax.multiply"(%x, %2) : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xf64>
  %4 = "relax.multiply"(%3, %half) : (tensor<5xf64>, tensor<f64>) -> tensor<5xf64>
  return %4 : tensor<5xf64>
}

// -----

// In f16 and bf16 the coefficients have their rounding errors.
// CHECK-LABEL: func.func @half
// CHECK:         %[[Y:.+]] = "relax.nn_gelu"(%arg0) : (tensor<5xf16>) -> tensor<5xf16>
// CHECK:         %[[Z:.+]] = "relax.nn_gelu_tanh"(%arg1) : (tensor<5xbf16>) -> tensor<5xbf16>
// CHECK:         return %[[Y]], %[[Z]]
func.func @half(%x: tensor<5xf16>, %z: tensor<5xbf16>) -> (tensor<5xf16>, tensor<5xbf16>) {
  %root = "relax.constant"() {value = dense<1.414> : tensor<f16>} : () -> tensor<f16>
  %one = "relax.constant"() {value = dense<1.0> : tensor<f16>} : () -> tensor<f16>
  %half = "relax.constant"() {value = dense<0.5> : tensor<f16>} : () -> tensor<f16>
  %0 = "relax.divide"(%x, %root) : (tensor<5xf16>, tensor<f16>) -> tensor<5xf16>
  %1 = "relax.erf"(%0) : (tensor<5xf16>) -> tensor<5xf16>
  %2 = "relax.add"(%1, %one) : (tensor<5xf16>, tensor<f16>) -> tensor<5xf16>
  %3 = "relax.multiply"(%x, %2) : (tensor<5xf16>, tensor<5xf16>) -> tensor<5xf16>
  %4 = "relax.multiply"(%3, %half) : (tensor<5xf16>, tensor<f16>) -> tensor<5xf16>
  %slope = "relax.constant"() {value = dense<0.7969> : tensor<bf16>} : () -> tensor<bf16>
  %cube = "relax.constant"() {value = dense<0.04468> : tensor<bf16>} : () -> tensor<bf16>
  %oneb = "relax.constant"() {value = dense<1.0> : tensor<bf16>} : () -> tensor<bf16>
  %halfb = "relax.constant"() {value = dense<0.5> : tensor<bf16>} : () -> tensor<bf16>
  %5 = "relax.multiply"(%z, %z) : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xbf16>
  %6 = "relax.multiply"(%5, %z) : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xbf16>
  %7 = "relax.multiply"(%6, %cube) : (tensor<5xbf16>, tensor<bf16>) -> tensor<5xbf16>
  %8 = "relax.add"(%z, %7) : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xbf16>
  %9 = "relax.multiply"(%8, %slope) : (tensor<5xbf16>, tensor<bf16>) -> tensor<5xbf16>
  %10 = "relax.tanh"(%9) : (tensor<5xbf16>) -> tensor<5xbf16>
  %11 = "relax.add"(%10, %oneb) : (tensor<5xbf16>, tensor<bf16>) -> tensor<5xbf16>
  %12 = "relax.multiply"(%z, %11) : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xbf16>
  %13 = "relax.multiply"(%12, %halfb) : (tensor<5xbf16>, tensor<bf16>) -> tensor<5xbf16>
  return %4, %13 : tensor<5xf16>, tensor<5xbf16>
}
