// RUN: relax-opt %s -p relax-fuse-transpose-matmul | filecheck %s

// The program reads the rows of `w` as columns of the matmul.
// CHECK-LABEL: func.func @plain
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32> {{.*}}, %[[W:.*]]: tensor<6x8xf32>
// CHECK:         "relax.call_tir"{{.*}}callee = @NT_matmul
func.func @plain(%x: tensor<4x8xf32> {relax.name = "x"}, %w: tensor<6x8xf32> {relax.name = "w"}) -> tensor<4x6xf32> {
  %0 = "relax.permute_dims"(%w) {axes, relax.dataflow = 0 : i64, relax.name = "t"} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = 0 : i64, relax.name = "y", relax.output} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// Other permutations stay.
// CHECK-LABEL: func.func @other
// CHECK:         "relax.permute_dims"
// CHECK:         "relax.matmul"
func.func @other(%x: tensor<4x8xf32> {relax.name = "x"}, %w: tensor<8x2x6xf32> {relax.name = "w"}) -> tensor<2x4x6xf32> {
  %0 = "relax.permute_dims"(%w) {axes = array<i64: 1, 0, 2>, relax.dataflow = 0 : i64, relax.name = "t"} : (tensor<8x2x6xf32>) -> tensor<2x8x6xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = 0 : i64, relax.name = "y", relax.output} : (tensor<4x8xf32>, tensor<2x8x6xf32>) -> tensor<2x4x6xf32>
  return %1 : tensor<2x4x6xf32>
}

// So does one with two users, or that is visible outside.
// CHECK-LABEL: func.func @shared
// CHECK:         "relax.permute_dims"
// CHECK-NEXT:    "relax.matmul"
// CHECK-NEXT:    "relax.matmul"
func.func @shared(%x: tensor<4x8xf32> {relax.name = "x"}, %w: tensor<8x8xf32> {relax.name = "w"}) -> tensor<4x8xf32> {
  %0 = "relax.permute_dims"(%w) {axes, relax.dataflow = 0 : i64, relax.name = "t"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = 0 : i64, relax.name = "y"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = "relax.matmul"(%1, %0) {out_dtype, relax.dataflow = 0 : i64, relax.name = "z", relax.output} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @seen
// CHECK:         "relax.permute_dims"
// CHECK-NEXT:    "relax.matmul"
func.func @seen(%x: tensor<4x8xf32> {relax.name = "x"}, %w: tensor<6x8xf32> {relax.name = "w"}) -> (tensor<4x6xf32>, tensor<8x6xf32>) {
  %0 = "relax.permute_dims"(%w) {axes, relax.dataflow = 0 : i64, relax.name = "t", relax.output} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = 0 : i64, relax.name = "y", relax.output} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %1, %0 : tensor<4x6xf32>, tensor<8x6xf32>
}

// CHECK-LABEL: func.func private @NT_matmul
// CHECK:         memref.load %arg0[%{{.*}}, %[[K:.*]]]
// CHECK:         memref.load %arg1[%{{.*}}, %[[K]]]
