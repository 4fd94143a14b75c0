// RUN: relax-opt %s -p relax-combine-parallel-matmul --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-combine-parallel-matmul{max-elements=14} --split-input-file | filecheck %s --check-prefix=SMALL

// Two matmuls of one operand are combined, with biases and activations.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = "relax.concat"(%{{.*}}) {axis = 1 : i64
// CHECK-NEXT:    %[[P:.*]] = "relax.matmul"(%arg0, %[[W]])
// CHECK:         "relax.add"(%[[P]], %{{.*}})
// CHECK-NEXT:    %[[R:.*]] = "relax.nn_relu"
// CHECK-NEXT:    "relax.split"(%[[R]]) {axis = 1 : i64, indices_or_sections = #relax.shape<["3"]>
// CHECK-NOT:     relax.matmul
func.func @main(%x: tensor<2x5xf32>, %w: tensor<5x3xf32>, %v: tensor<5x7xf32>, %b: tensor<3xf32>, %c: tensor<7xf32>) -> (tensor<2x3xf32>, tensor<2x7xf32>) {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.matmul"(%x, %v) {out_dtype, relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2x5xf32>, tensor<5x7xf32>) -> tensor<2x7xf32>
  %2 = "relax.add"(%0, %b) {relax.dataflow = 0 : i64, relax.name = "lv2"} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = "relax.add"(%1, %c) {relax.dataflow = 0 : i64, relax.name = "lv3"} : (tensor<2x7xf32>, tensor<7xf32>) -> tensor<2x7xf32>
  %4 = "relax.nn_relu"(%2) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = "relax.nn_relu"(%3) {relax.dataflow = 0 : i64, relax.name = "gv1", relax.output} : (tensor<2x7xf32>) -> tensor<2x7xf32>
  return %4, %5 : tensor<2x3xf32>, tensor<2x7xf32>
}

// -----

// Matmuls of two operands stay apart.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     relax.concat
func.func @main(%x: tensor<2x5xf32>, %y: tensor<2x5xf32>, %w: tensor<5x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "a", relax.output} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.matmul"(%y, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "b", relax.output} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// An addition of two matmuls is not a bias of either.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = "relax.matmul"(%arg0, %{{.*}})
// CHECK-NEXT:    "relax.split"(%[[P]])
// CHECK:         "relax.add"
// CHECK-NOT:     relax.matmul
func.func @main(%x: tensor<2x5xf32>, %w: tensor<5x3xf32>, %v: tensor<5x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.matmul"(%x, %v) {out_dtype, relax.dataflow = 0 : i64, relax.name = "b"} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %2 = "relax.add"(%0, %1) {relax.dataflow = 0 : i64, relax.name = "c", relax.output} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// A matmul whose weight is computed from another one comes after it.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     relax.concat
func.func @main(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "e"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "relax.matmul"(%x, %1) {out_dtype, relax.dataflow = 0 : i64, relax.name = "b", relax.output} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// -----

// So does one whose bias is.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     relax.concat
func.func @main(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>, %v: tensor<3x3xf32>, %b: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = 0 : i64, relax.name = "c"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "relax.matmul"(%x, %v) {out_dtype, relax.dataflow = 0 : i64, relax.name = "d"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = "relax.add"(%2, %1) {relax.dataflow = 0 : i64, relax.name = "e", relax.output} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %3 : tensor<3x3xf32>
}

// -----

// Small matmuls with constants are combined in any block, and their results are slices; larger ones
// stay, and so do those with activations, and those whose bias is not constant, or missing.
// CHECK-LABEL: func.func @small
// CHECK-NOT:     relax.concat
// SMALL-LABEL: func.func @small
// SMALL:         %[[LARGE:.*]] = "relax.matmul"(%arg0, %{{.*}}) {{.*}} -> tensor<2x8xf32>
// SMALL:         %[[W:.*]] = "relax.concat"(%{{.*}}) {axis = 1 : i64
// SMALL:         %[[P:.*]] = "relax.matmul"(%arg0, %[[W]])
// SMALL:         %[[B:.*]] = "relax.concat"(%{{.*}}) {axis = 0 : i64
// SMALL:         %[[S:.*]] = "relax.add"(%[[P]], %[[B]])
// SMALL:         %[[FIRST:.*]] = "relax.strided_slice"(%[[S]]) {{.*}}axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["3"]>
// SMALL:         %[[SECOND:.*]] = "relax.strided_slice"(%[[S]]) {{.*}}axes = array<i64: 1>, begin = #relax.shape<["3"]>, end = #relax.shape<["10"]>
// SMALL:         return %[[FIRST]], %[[SECOND]], %[[LARGE]]
func.func @small(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x7xf32>, tensor<2x8xf32>) {
  %w = "relax.constant"() {value = dense<2.0> : tensor<5x3xf32>} : () -> tensor<5x3xf32>
  %v = "relax.constant"() {value = dense<3.0> : tensor<5x7xf32>} : () -> tensor<5x7xf32>
  %u = "relax.constant"() {value = dense<4.0> : tensor<5x8xf32>} : () -> tensor<5x8xf32>
  %b = "relax.constant"() {value = dense<5.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %c = "relax.constant"() {value = dense<6.0> : tensor<7xf32>} : () -> tensor<7xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.matmul"(%x, %v) {out_dtype} : (tensor<2x5xf32>, tensor<5x7xf32>) -> tensor<2x7xf32>
  %2 = "relax.matmul"(%x, %u) {out_dtype} : (tensor<2x5xf32>, tensor<5x8xf32>) -> tensor<2x8xf32>
  %3 = "relax.add"(%0, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = "relax.add"(%1, %c) : (tensor<2x7xf32>, tensor<7xf32>) -> tensor<2x7xf32>
  return %3, %4, %2 : tensor<2x3xf32>, tensor<2x7xf32>, tensor<2x8xf32>
}

// -----

// SMALL-LABEL: func.func @other
// SMALL-NOT:     relax.concat
func.func @other(%x: tensor<2x5xf32>, %y: tensor<5x3xf32>, %r: tensor<2x3xf32>, %o: tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<?x3xf32, #relax.shape<["n", "3"]>>, tensor<?x3xf32, #relax.shape<["n", "3"]>>) {
  %w = "relax.constant"() {value = dense<2.0> : tensor<5x3xf32>} : () -> tensor<5x3xf32>
  %v = "relax.constant"() {value = dense<3.0> : tensor<5x3xf32>} : () -> tensor<5x3xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.matmul"(%x, %v) {out_dtype} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %2 = "relax.matmul"(%x, %y) {out_dtype} : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  %3 = "relax.add"(%0, %r) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "relax.matmul"(%o, %w) {out_dtype} : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5x3xf32>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  %5 = "relax.matmul"(%o, %v) {out_dtype} : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5x3xf32>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  return %3, %1, %2, %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<?x3xf32, #relax.shape<["n", "3"]>>, tensor<?x3xf32, #relax.shape<["n", "3"]>>
}
