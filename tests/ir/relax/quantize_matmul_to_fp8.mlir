// RUN: relax-opt %s -p "relax-quantize-matmul-to-fp8" --split-input-file | filecheck %s

// Rows are divided by scales, once for both matmuls; weights are stored K-major, and nothing else
// is.
// CHECK-LABEL: func.func @both
// CHECK:         %[[A:.*]] = "relax.abs"(%arg0)
// CHECK:         %[[S:.*]] = "relax.multiply"(%[[A]], %{{.*}})
// CHECK:         %[[M:.*]] = "relax.maximum"(%[[S]], %{{.*}})
// CHECK:         %[[T:.*]] = "relax.max"(%[[M]]) {axis = array<i64: -1>, keepdims = true} {{.*}} -> tensor<8x1xf32>
// CHECK:         %[[D:.*]] = "relax.divide"(%arg0, %[[T]])
// CHECK:         %[[X:.*]] = "relax.astype"(%[[D]]) {dtype = f8E4M3FN}
// CHECK:         %[[W:.*]] = "relax.constant"() {{.*}}tensor<32x16xf8E4M3FN>
// CHECK:         %[[C:.*]] = "relax.constant"() {{.*}}tensor<32xf32>
// CHECK:         %[[P:.*]] = "relax.nn_dense"(%[[X]], %[[W]]) {out_dtype = f32}
// CHECK:         %[[Q:.*]] = "relax.multiply"(%[[P]], %[[T]])
// CHECK:         "relax.multiply"(%[[Q]], %[[C]])
// CHECK-NOT:     relax.abs
// CHECK:         "relax.nn_dense"(%[[X]], %{{.*}})
func.func @both(%x: tensor<8x16xf32>) -> (tensor<8x32xf32>, tensor<8x4xf32>) {
  %w = "relax.constant"() {value = dense<0.5> : tensor<16x32xf32>} : () -> tensor<16x32xf32>
  %v = "relax.constant"() {value = dense<0.25> : tensor<4x16xf32>} : () -> tensor<4x16xf32>
  %y = "relax.matmul"(%x, %w) {out_dtype} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %z = "relax.nn_dense"(%x, %v) {out_dtype} : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  return %y, %z : tensor<8x32xf32>, tensor<8x4xf32>
}

// -----

// Matmuls of two activations, of small K, and of other types are left alone.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     f8E4M3FN
// CHECK:         return
func.func @others(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>, %a: tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %w = "relax.constant"() {value = dense<0.5> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
  %0 = "relax.matmul"(%x, %y) {out_dtype} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = "relax.matmul"(%a, %w) {out_dtype} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
