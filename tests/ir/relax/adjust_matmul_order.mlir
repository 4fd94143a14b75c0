// RUN: relax-opt %s -p relax-adjust-matmul-order | filecheck %s

// For one row, two matmuls with rank-2 weights need fewer multiplications than the weights'
// product.
// CHECK-LABEL: func.func @row_first
// CHECK:         %[[XA:.*]] = "relax.matmul"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<1x2xf32>
// CHECK:         "relax.matmul"(%[[XA]], %{{.*}}) {{.*}} -> tensor<1x5xf32>
func.func @row_first(%x: tensor<1x7xf32> {relax.name = "x"}, %a: tensor<7x2xf32> {relax.name = "a"}, %b: tensor<2x5xf32> {relax.name = "b"}) -> tensor<1x5xf32> {
  %0 = "relax.matmul"(%a, %b) {out_dtype, relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<7x2xf32>, tensor<2x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  return %1 : tensor<1x5xf32>
}

// Operands known before the input are multiplied first, whatever the cost.
// CHECK-LABEL: func.func @known_first
// CHECK:         %[[AB:.*]] = "relax.matmul"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<7x5xf32>
// CHECK:         "relax.matmul"(%{{.*}}, %[[AB]]) {{.*}} -> tensor<1x5xf32>
func.func @known_first(%x: tensor<1x7xf32> {relax.name = "x"}, %a: tensor<7x2xf32> {relax.name = "a"}, %b: tensor<2x5xf32> {relax.name = "b"}) -> tensor<1x5xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.matmul"(%x, %a) {out_dtype, relax.dataflow = -1 : i64, relax.name = "v"} : (tensor<1x7xf32>, tensor<7x2xf32>) -> tensor<1x2xf32>
  %1 = "relax.matmul"(%0, %b) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<1x2xf32>, tensor<2x5xf32>) -> tensor<1x5xf32>
  return %1 : tensor<1x5xf32>
}

// The product of two operands may be transposed: then each of them is.
// CHECK-LABEL: func.func @transposed
// CHECK:         %[[AT:.*]] = "relax.permute_dims"(%{{.*}}) {{.*}} -> tensor<7x2xf32>
// CHECK:         %[[XA:.*]] = "relax.matmul"(%{{.*}}, %[[AT]]) {{.*}} -> tensor<1x2xf32>
// CHECK:         %[[BT:.*]] = "relax.permute_dims"(%{{.*}}) {{.*}} -> tensor<2x5xf32>
// CHECK:         "relax.matmul"(%[[XA]], %[[BT]]) {{.*}} -> tensor<1x5xf32>
func.func @transposed(%x: tensor<1x7xf32> {relax.name = "x"}, %a: tensor<2x7xf32> {relax.name = "a"}, %b: tensor<5x2xf32> {relax.name = "b"}) -> tensor<1x5xf32> {
  %0 = "relax.matmul"(%b, %a) {out_dtype, relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<5x2xf32>, tensor<2x7xf32>) -> tensor<5x7xf32>
  %1 = "relax.permute_dims"(%0) {axes, relax.dataflow = -1 : i64, relax.name = "t"} : (tensor<5x7xf32>) -> tensor<7x5xf32>
  %2 = "relax.matmul"(%x, %1) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  return %2 : tensor<1x5xf32>
}
