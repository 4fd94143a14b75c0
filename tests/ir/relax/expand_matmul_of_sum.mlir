// RUN: relax-opt %s -p relax-expand-matmul-of-sum | filecheck %s

// A matmul with a sum becomes a sum of matmuls.
// CHECK-LABEL: func.func @sum
// CHECK-SAME:    (%[[X:.*]]: {{.*}}, %[[A:.*]]: {{.*}}, %[[B:.*]]: {{.*}})
// CHECK:         %[[L:.*]] = "relax.matmul"(%[[X]], %[[A]])
// CHECK:         %[[R:.*]] = "relax.matmul"(%[[X]], %[[B]])
// CHECK:         "relax.add"(%[[L]], %[[R]])
func.func @sum(%x: tensor<3x7xf32> {relax.name = "x"}, %a: tensor<7x5xf32> {relax.name = "a"}, %b: tensor<7x5xf32> {relax.name = "b"}) -> tensor<3x5xf32> {
  %0 = "relax.add"(%a, %b) {relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// Each operand of a transposed sum is transposed.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME:    (%[[X:.*]]: {{.*}}, %[[A:.*]]: {{.*}}, %[[B:.*]]: {{.*}})
// CHECK:         %[[AT:.*]] = "relax.permute_dims"(%[[A]])
// CHECK:         "relax.matmul"(%[[X]], %[[AT]])
// CHECK:         %[[BT:.*]] = "relax.permute_dims"(%[[B]])
// CHECK:         "relax.matmul"(%[[X]], %[[BT]])
func.func @transposed(%x: tensor<3x7xf32> {relax.name = "x"}, %a: tensor<5x7xf32> {relax.name = "a"}, %b: tensor<5x7xf32> {relax.name = "b"}) -> tensor<3x5xf32> {
  %0 = "relax.add"(%a, %b) {relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %1 = "relax.permute_dims"(%0) {axes, relax.dataflow = -1 : i64, relax.name = "t"} : (tensor<5x7xf32>) -> tensor<7x5xf32>
  %2 = "relax.matmul"(%x, %1) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %2 : tensor<3x5xf32>
}

// A sum known before the input is computed once, and stays.
// CHECK-LABEL: func.func @known
// CHECK:         %[[W:.*]] = "relax.add"
// CHECK-NEXT:    "relax.matmul"(%{{.*}}, %[[W]])
func.func @known(%x: tensor<3x7xf32> {relax.name = "x"}, %a: tensor<7x5xf32> {relax.name = "a"}, %b: tensor<7x5xf32> {relax.name = "b"}) -> tensor<3x5xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.add"(%a, %b) {relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
