// RUN: relax-opt %s -p relax-fold-batchnorm-to-conv2d --split-input-file | filecheck %s

// The weights are scaled, and one addition remains of the normalisation.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = "relax.multiply"(%{{.*}}, %{{.*}}) : (tensor<2x1x1x1xf32>, tensor<2x1x1x1xf32>)
// CHECK:         %[[C:.*]] = "relax.nn_conv2d"(%arg0, %[[W]])
// CHECK:         %[[R:.*]] = "relax.add"(%[[C]], %{{.*}}) : (tensor<1x2x5x5xf32>, tensor<1x2x1x1xf32>)
// CHECK-NEXT:    return %[[R]]
// CHECK-NOT:     nn_batch_norm
func.func @main(%x: tensor<1x1x5x5xf32>) -> tensor<1x2x5x5xf32> {
  %w = "relax.constant"() {value = dense<2.0> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %k = "relax.constant"() {value = dense<3.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {data_layout = "NCHW", dilation = array<i64: 1, 1>, groups = 1 : i64, kernel_layout = "OIHW", out_dtype, out_layout = "NCHW", padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x1x5x5xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x5x5xf32>
  %1 = "relax.nn_batch_norm"(%0, %k, %k, %k, %k) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 1.0e-01 : f64, scale = true, training = false} : (tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>>
  %2 = "relax.tuple_get_item"(%1) {index = 0 : i64} : (tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<1x2x5x5xf32>
  return %2 : tensor<1x2x5x5xf32>
}

// -----

// Non-constant weights stay.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.nn_conv2d"(%arg0, %arg1)
// CHECK-NEXT:    relax.nn_batch_norm
func.func @main(%x: tensor<1x1x5x5xf32>, %w: tensor<2x1x1x1xf32>, %k: tensor<2xf32>) -> tensor<1x2x5x5xf32> {
  %0 = "relax.nn_conv2d"(%x, %w) {data_layout = "NCHW", dilation = array<i64: 1, 1>, groups = 1 : i64, kernel_layout = "OIHW", out_dtype, out_layout = "NCHW", padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x1x5x5xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x5x5xf32>
  %1 = "relax.nn_batch_norm"(%0, %k, %k, %k, %k) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 1.0e-01 : f64, scale = true, training = false} : (tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>>
  %2 = "relax.tuple_get_item"(%1) {index = 0 : i64} : (tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<1x2x5x5xf32>
  return %2 : tensor<1x2x5x5xf32>
}

// -----

// Channels may be last; without scale and shift, one subtraction remains. Bindings keep their block.
// CHECK-LABEL: func.func @main
// CHECK:         relax.divide{{.*}}relax.dataflow = 3 : i64
// CHECK:         "relax.reshape"({{.*}}) {relax.dataflow = 3 : i64, relax.name = "lv", {{.*}} -> tensor<1x1x1x2xf32>
// CHECK:         %[[C:.*]] = "relax.nn_conv2d"(%arg0, %{{.*}}) {data_layout = "NHWC"
// CHECK:         "relax.reshape"({{.*}} -> tensor<1x1x1x2xf32>
// CHECK-NEXT:    "relax.subtract"(%[[C]], %{{.*}}) {relax.dataflow = 3 : i64, relax.name = "gv", relax.output}
func.func @main(%x: tensor<1x5x5x1xf32>) -> tensor<1x5x5x2xf32> {
  %w = "relax.constant"() {value = dense<2.0> : tensor<1x1x1x2xf32>} : () -> tensor<1x1x1x2xf32>
  %k = "relax.constant"() {value = dense<3.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {data_layout = "NHWC", dilation = array<i64: 1, 1>, groups = 1 : i64, kernel_layout = "HWIO", out_dtype, out_layout = "NHWC", padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, relax.dataflow = 3 : i64, relax.name = "lv"} : (tensor<1x5x5x1xf32>, tensor<1x1x1x2xf32>) -> tensor<1x5x5x2xf32>
  %1 = "relax.nn_batch_norm"(%0, %k, %k, %k, %k) {axis = -1 : i64, center = false, epsilon = 1.0e-05 : f64, momentum = 1.0e-01 : f64, scale = false, training = false, relax.dataflow = 3 : i64, relax.name = "lv1"} : (tensor<1x5x5x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<1x5x5x2xf32>, tensor<2xf32>, tensor<2xf32>>
  %2 = "relax.tuple_get_item"(%1) {index = 0 : i64, relax.dataflow = 3 : i64, relax.name = "gv", relax.output} : (tuple<tensor<1x5x5x2xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<1x5x5x2xf32>
  return %2 : tensor<1x5x5x2xf32>
}

// -----

// A normalisation along another axis stays.
// CHECK-LABEL: func.func @main
// CHECK:         relax.nn_conv2d
// CHECK-NEXT:    relax.nn_batch_norm
func.func @main(%x: tensor<1x1x2x5xf32>) -> tensor<1x2x2x5xf32> {
  %w = "relax.constant"() {value = dense<2.0> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %k = "relax.constant"() {value = dense<3.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {data_layout = "NCHW", dilation = array<i64: 1, 1>, groups = 1 : i64, kernel_layout = "OIHW", out_dtype, out_layout = "NCHW", padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x1x2x5xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x5xf32>
  %1 = "relax.nn_batch_norm"(%0, %k, %k, %k, %k) {axis = 2 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 1.0e-01 : f64, scale = true, training = false} : (tensor<1x2x2x5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<1x2x2x5xf32>, tensor<2xf32>, tensor<2xf32>>
  %2 = "relax.tuple_get_item"(%1) {index = 0 : i64} : (tuple<tensor<1x2x2x5xf32>, tensor<2xf32>, tensor<2xf32>>) -> tensor<1x2x2x5xf32>
  return %2 : tensor<1x2x2x5xf32>
}
