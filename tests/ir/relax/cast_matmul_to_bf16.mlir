// RUN: relax-opt %s -p "relax-cast-matmul-to-bf16" --split-input-file | filecheck %s
// RUN: relax-opt %s -p "relax-cast-matmul-to-bf16{to=float16 weights-only=true}" --split-input-file | filecheck %s --check-prefix=WEIGHTS

// Both operands are cast; the residual is not.
// CHECK-LABEL: func.func @both
// CHECK-DAG:     %[[W:.*]] = "relax.astype"(%{{.*}}) {dtype = bf16} : (tensor<32x32xf32>)
// CHECK-DAG:     %[[A:.*]] = "relax.nn_relu"(%arg0)
// CHECK-DAG:     %[[X:.*]] = "relax.astype"(%[[A]]) {dtype = bf16} : (tensor<8x32xf32>)
// CHECK:         %[[Y:.*]] = "relax.matmul"(%[[X]], %[[W]]) {out_dtype = f32} : (tensor<8x32xbf16>, tensor<32x32xbf16>) -> tensor<8x32xf32>
// CHECK:         "relax.add"(%[[A]], %[[Y]]) : (tensor<8x32xf32>, tensor<8x32xf32>)
// WEIGHTS-LABEL: func.func @both
// WEIGHTS:         %[[W:.*]] = "relax.astype"(%{{.*}}) {dtype = f16}
// WEIGHTS:         %[[A:.*]] = "relax.nn_relu"(%arg0)
// WEIGHTS-NEXT:    "relax.matmul"(%[[A]], %[[W]]) {out_dtype = f32} : (tensor<8x32xf32>, tensor<32x32xf16>) -> tensor<8x32xf32>
func.func @both(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<32x32xf32>} : () -> tensor<32x32xf32>
  %a = "relax.nn_relu"(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = "relax.matmul"(%a, %w) {out_dtype} : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %z = "relax.add"(%a, %y) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %z : tensor<8x32xf32>
}

// -----

// Casts are hoisted above data movement; a value is cast once.
// CHECK-LABEL: func.func @moved
// CHECK:         %[[X:.*]] = "relax.astype"(%arg0) {dtype = bf16} : (tensor<16x8xf32>)
// CHECK-NEXT:    %[[T:.*]] = "relax.permute_dims"(%[[X]])
// CHECK-SAME:      -> tensor<8x16xbf16>
// CHECK-NEXT:    "relax.matmul"(%[[T]], %[[X]])
// CHECK-NOT:     astype
func.func @moved(%x: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %t = "relax.permute_dims"(%x) {axes = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %y = "relax.matmul"(%t, %x) {out_dtype} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// A transpose with another user stays as it is.
// CHECK-LABEL: func.func @also_read
// CHECK:         %[[T:.*]] = "relax.permute_dims"(%arg0)
// CHECK-SAME:      -> tensor<8x16xf32>
// CHECK-NEXT:    %[[N:.*]] = "relax.astype"(%[[T]]) {dtype = bf16}
// CHECK:         return %[[T]]
func.func @also_read(%x: tensor<16x8xf32>, %w: tensor<16x8xf32>) -> (tensor<8x16xf32>, tensor<8x8xf32>) {
  %t = "relax.permute_dims"(%x) {axes = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %y = "relax.matmul"(%t, %w) {out_dtype} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %t, %y : tensor<8x16xf32>, tensor<8x8xf32>
}

// -----

// Short reductions, and those of other types, are left alone.
// CHECK-LABEL: func.func @short
// CHECK-NOT:     astype
// CHECK:         return
func.func @short(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>, %a: tensor<8x32xf64>, %b: tensor<32x8xf64>) -> (tensor<8x8xf32>, tensor<8x8xf64>) {
  %0 = "relax.matmul"(%x, %y) {out_dtype} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = "relax.matmul"(%a, %b) {out_dtype} : (tensor<8x32xf64>, tensor<32x8xf64>) -> tensor<8x8xf64>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf64>
}

// -----

// The image that a pooling and a concatenation produce is cast before them.
// CHECK-LABEL: func.func @images
// CHECK-DAG:     %[[A:.*]] = "relax.astype"(%arg0) {dtype = bf16} : (tensor<1x16x8x8xf32>)
// CHECK-DAG:     %[[B:.*]] = "relax.astype"(%arg1) {dtype = bf16} : (tensor<1x16x4x4xf32>)
// CHECK:         %[[P:.*]] = "relax.nn_max_pool2d"(%[[A]])
// CHECK:         "relax.concat"
// CHECK:         "relax.nn_conv2d"
// CHECK-SAME:      out_dtype = f32
// CHECK-SAME:      (tensor<1x32x4x4xbf16>, tensor<16x32x1x1xbf16>) -> tensor<1x16x4x4xf32>
func.func @images(%x: tensor<1x16x8x8xf32>, %y: tensor<1x16x4x4xf32>, %w: tensor<16x32x1x1xf32>) -> tensor<1x16x4x4xf32> {
  %p = "relax.nn_max_pool2d"(%x) {pool_size = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false, count_include_pad = false, layout = "NCHW", out_layout = unit} : (tensor<1x16x8x8xf32>) -> tensor<1x16x4x4xf32>
  %pair = builtin.unrealized_conversion_cast %p, %y : tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32> to tuple<tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>>
  %c = "relax.concat"(%pair) {axis = 1 : i64} : (tuple<tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>>) -> tensor<1x32x4x4xf32>
  %z = "relax.nn_conv2d"(%c, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x32x4x4xf32>, tensor<16x32x1x1xf32>) -> tensor<1x16x4x4xf32>
  return %z : tensor<1x16x4x4xf32>
}

// -----

// One row times activations: each element is read once, as by a cast. Weights are cast at compile
// time, and more rows, or rows of many batches, reuse elements.
// CHECK-LABEL: func.func @one_row
// CHECK:         "relax.matmul"(%arg0, %arg1) {out_dtype
// CHECK-SAME:      (tensor<2x1x32xf32>, tensor<2x32x48xf32>) -> tensor<2x1x48xf32>
// CHECK:         "relax.matmul"({{.*}}) {out_dtype = f32} : (tensor<2x1x48xbf16>, tensor<48x16xbf16>)
// CHECK:         "relax.matmul"({{.*}}) {out_dtype = f32} : (tensor<2x5x32xbf16>, tensor<2x32x48xbf16>)
// CHECK:         "relax.matmul"({{.*}}) {out_dtype = f32} : (tensor<9x1x32xbf16>, tensor<32x48xbf16>)
func.func @one_row(%q: tensor<2x1x32xf32>, %k: tensor<2x32x48xf32>, %r: tensor<2x5x32xf32>, %s: tensor<9x1x32xf32>, %t: tensor<32x48xf32>) -> (tensor<2x1x16xf32>, tensor<2x5x48xf32>, tensor<9x1x48xf32>) {
  %w = "relax.constant"() {value = dense<1.0> : tensor<48x16xf32>} : () -> tensor<48x16xf32>
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<2x1x32xf32>, tensor<2x32x48xf32>) -> tensor<2x1x48xf32>
  %1 = "relax.matmul"(%0, %w) {out_dtype} : (tensor<2x1x48xf32>, tensor<48x16xf32>) -> tensor<2x1x16xf32>
  %2 = "relax.matmul"(%r, %k) {out_dtype} : (tensor<2x5x32xf32>, tensor<2x32x48xf32>) -> tensor<2x5x48xf32>
  %3 = "relax.matmul"(%s, %t) {out_dtype} : (tensor<9x1x32xf32>, tensor<32x48xf32>) -> tensor<9x1x48xf32>
  return %1, %2, %3 : tensor<2x1x16xf32>, tensor<2x5x48xf32>, tensor<9x1x48xf32>
}
