// RUN: relax-opt %s -p relax-fold-batchnorm-to-conv2d --split-input-file | filecheck %s

// The weights are scaled, and one addition remains of the normalisation.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = "relax.multiply"(%{{.*}}, %{{.*}}) : (tensor<2x1x1x1xf32>, tensor<2x1x1x1xf32>)
// CHECK:         %[[C:.*]] = "relax.nn_conv2d"(%arg0, %[[W]])
// CHECK-NEXT:    "relax.add"(%[[C]], %
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
