// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512} --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=128} --split-input-file | filecheck %s --check-prefix=NARROW
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants --split-input-file | filecheck %s --check-prefix=WIDE

// Columns of a weight in panels as wide as the register tile: 70 columns are one panel of 48, and
// one padded with zeros. Narrow vectors have narrower tiles. The old array is removed.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT:    %[[W:.+]] = "relax.constant"() {value = #relax.const<"constant.packed">} : () -> tensor<2x5x48xf32>
// CHECK-NOT:     relax.constant
// CHECK:         %[[GIVEN:.+]] = builtin.unrealized_conversion_cast %arg0, %[[W]]
// CHECK-NEXT:    "relax.call_tir"(%[[GIVEN]]) {callee = @matmul_1
// CHECK-LABEL: func.func @matmul_1(%arg0: memref<64x5xf32>, %arg1: memref<2x5x48xf32>, %arg2: memref<64x70xf32>)
// CHECK:         ^bb0(%[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// CHECK-DAG:     %[[BLOCK:.+]] = arith.divui %[[J]], %c48
// CHECK-DAG:     %[[PLACE:.+]] = arith.remui %[[J]], %c48
// CHECK:         memref.load %arg1[%[[BLOCK]], %[[K]], %[[PLACE]]] : memref<2x5x48xf32>
// CHECK-NOT:   func.func
// WIDE-LABEL:  func.func @blocks
// WIDE:          tensor<3x5x24xf32>
// NARROW-LABEL: func.func @blocks
// NARROW:        tensor<9x5x8xf32>
func.func @blocks(%x: tensor<64x5xf32>) -> tensor<64x70xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf32>} : () -> tensor<5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf32>, tensor<5x70xf32>) -> tensor<64x70xf32>
  return %0 : tensor<64x70xf32>
}

// -----

// Activations are not packed.
// CHECK-LABEL: func.func @given
// CHECK:         callee = @matmul, {{.*}} tensor<5x70xf32>>
// CHECK-LABEL: func.func @matmul(
// CHECK-NOT:     arith.divui
func.func @given(%x: tensor<64x5xf32>, %w: tensor<5x70xf32>) -> tensor<64x70xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf32>, tensor<5x70xf32>) -> tensor<64x70xf32>
  return %0 : tensor<64x70xf32>
}

// -----

// Vectors hold half as many 64-bit elements.
// CHECK-LABEL: func.func @doubles
// CHECK:         tensor<3x5x24xf64>
// CHECK-LABEL: func.func @matmul_1(%arg0: memref<64x5xf64>, %arg1: memref<3x5x24xf64>
func.func @doubles(%x: tensor<64x5xf64>) -> tensor<64x70xf64> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf64>} : () -> tensor<5x70xf64>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf64>, tensor<5x70xf64>) -> tensor<64x70xf64>
  return %0 : tensor<64x70xf64>
}

// -----

// A single row needs many columns at a time: here all, in five vectors.
// CHECK-LABEL: func.func @one_row
// CHECK:         tensor<1x5x80xf32>
// WIDE-LABEL:  func.func @one_row
// NARROW-LABEL: func.func @one_row
// NARROW:        tensor<2x5x64xf32>
func.func @one_row(%x: tensor<1x5xf32>) -> tensor<1x70xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf32>} : () -> tensor<5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<1x5xf32>, tensor<5x70xf32>) -> tensor<1x70xf32>
  return %0 : tensor<1x70xf32>
}

// -----

// A dynamic number of rows; the shape attribute of the buffer is that of the panels.
// CHECK-LABEL: func.func @open_rows
// CHECK-LABEL: func.func @matmul_1
// CHECK-SAME:    %arg1: memref<2x5x48xf32> {tir.shape = #relax.shape<["2", "5", "48"]>}
func.func @open_rows(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> tensor<?x70xf32, #relax.shape<["n", "70"]>> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf32>} : () -> tensor<5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5x70xf32>) -> tensor<?x70xf32, #relax.shape<["n", "70"]>>
  return %0 : tensor<?x70xf32, #relax.shape<["n", "70"]>>
}

// -----

// A batched matmul has few columns, and stays.
// CHECK-LABEL: func.func @batch
// CHECK:         callee = @matmul, {{.*}} tensor<3x5x70xf32>>
func.func @batch(%x: tensor<3x8x5xf32>) -> tensor<3x8x70xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x5x70xf32>} : () -> tensor<3x5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<3x8x5xf32>, tensor<3x5x70xf32>) -> tensor<3x8x70xf32>
  return %0 : tensor<3x8x70xf32>
}

// -----

// So does one whose columns do not fill half a vector, except for narrow vectors.
// CHECK-LABEL: func.func @few_columns
// CHECK:         callee = @matmul, {{.*}} tensor<5x3xf32>>
// NARROW-LABEL: func.func @few_columns
// NARROW:        tensor<1x5x4xf32>
func.func @few_columns(%x: tensor<64x5xf32>) -> tensor<64x3xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x3xf32>} : () -> tensor<5x3xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf32>, tensor<5x3xf32>) -> tensor<64x3xf32>
  return %0 : tensor<64x3xf32>
}

// -----

// The elements: two steps of K by six columns, in one panel of eight.
// WIDE-LABEL:  func.func @numbers
// WIDE:          dense<{{...}}0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 5.000000e+00, 0.000000e+00, 0.000000e+00], [6.000000e+00, 7.000000e+00, 8.000000e+00, 9.000000e+00, 1.000000e+01, 1.100000e+01, 0.000000e+00, 0.000000e+00]]]>
func.func @numbers(%x: tensor<64x2xf32>) -> tensor<64x6xf32> {
  %w = "relax.constant"() {value = dense<[[0., 1., 2., 3., 4., 5.], [6., 7., 8., 9., 10., 11.]]> : tensor<2x6xf32>} : () -> tensor<2x6xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x2xf32>, tensor<2x6xf32>) -> tensor<64x6xf32>
  return %0 : tensor<64x6xf32>
}

// -----

// Contiguous rows count together, and choose the tile of many rows.
// CHECK-LABEL: func.func @rows_together
// CHECK:         tensor<2x5x48xf32>
func.func @rows_together(%x: tensor<7x2x5xf32>) -> tensor<7x2x70xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf32>} : () -> tensor<5x70xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<7x2x5xf32>, tensor<5x70xf32>) -> tensor<7x2x70xf32>
  return %0 : tensor<7x2x70xf32>
}

// -----

// 16-bit elements are extended after loads; a panel has as many columns as the vectors of f32
// accumulators.
// CHECK-LABEL: func.func @halves
// CHECK:         callee = @matmul_1, {{.*}} tensor<2x5x48xf16>>
func.func @halves(%x: tensor<64x5xf16>) -> tensor<64x70xf16> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<5x70xf16>} : () -> tensor<5x70xf16>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<64x5xf16>, tensor<5x70xf16>) -> tensor<64x70xf16>
  return %0 : tensor<64x70xf16>
}
