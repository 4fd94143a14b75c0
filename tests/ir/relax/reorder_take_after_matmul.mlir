// RUN: relax-opt %s -p relax-reorder-take-after-matmul | filecheck %s

// Columns of the matmul with the whole matrix, instead of a matmul with columns.
// CHECK-LABEL: func.func @columns
// CHECK-SAME:    (%[[X:.*]]: {{.*}}, %[[T:.*]]: {{.*}}, %[[I:.*]]: {{.*}})
// CHECK:         %[[ALL:.*]] = "relax.matmul"(%[[X]], %[[T]])
// CHECK:         "relax.take"(%[[ALL]], %[[I]]) {axis = 1 : i64
func.func @columns(%x: tensor<3x7xf32> {relax.name = "x"}, %t: tensor<7x11xf32> {relax.name = "t"}, %i: tensor<5xi64> {relax.name = "i"}) -> tensor<3x5xf32> {
  %0 = "relax.take"(%t, %i) {axis = 1 : i64, mode = "fast", relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<7x11xf32>, tensor<5xi64>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// One matrix per element of a batch: taken from the matmul with all of them side by side.
// CHECK-LABEL: func.func @matrices
// CHECK:         "relax.permute_dims"({{.*}}) {{.*}} -> tensor<7x4x5xf32>
// CHECK:         "relax.reshape"({{.*}}) {{.*}} -> tensor<7x20xf32>
// CHECK:         "relax.matmul"({{.*}}) {{.*}} -> tensor<2x3x20xf32>
// CHECK:         "relax.reshape"({{.*}}) {{.*}} -> tensor<2x3x4x5xf32>
// CHECK:         "relax.take"({{.*}}) {{.*}} -> tensor<2x3x2x5xf32>
// CHECK:         "relax.einsum"({{.*}}) {{.*}} -> tensor<2x3x5xf32>
func.func @matrices(%x: tensor<2x3x7xf32> {relax.name = "x"}, %t: tensor<4x7x5xf32> {relax.name = "t"}, %i: tensor<2xi64> {relax.name = "i"}) -> tensor<2x3x5xf32> {
  %0 = "relax.take"(%t, %i) {axis = 0 : i64, mode = "fast", relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<4x7x5xf32>, tensor<2xi64>) -> tensor<2x7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<2x3x7xf32>, tensor<2x7x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// Rows of the matrix are the reduction dimension: they must be taken first.
// CHECK-LABEL: func.func @rows
// CHECK:         %[[W:.*]] = "relax.take"
// CHECK-NEXT:    "relax.matmul"(%{{.*}}, %[[W]])
func.func @rows(%x: tensor<3x7xf32> {relax.name = "x"}, %t: tensor<11x5xf32> {relax.name = "t"}, %i: tensor<7xi64> {relax.name = "i"}) -> tensor<3x5xf32> {
  %0 = "relax.take"(%t, %i) {axis = 0 : i64, mode = "fast", relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<11x5xf32>, tensor<7xi64>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
