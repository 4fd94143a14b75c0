// RUN: relax-opt %s -p relax-fold-batch-norm --split-input-file | filecheck %s

// Normalisation by constant statistics is one multiplication and one addition of activations.
// CHECK-LABEL: func.func @normalise
// CHECK:         %[[SCALED:.*]] = "relax.multiply"(%arg0, %{{.*}}) : (tensor<2x3x5x5xf32>, tensor<1x3x1x1xf32>)
// CHECK:         %[[R:.*]] = "relax.add"(%[[SCALED]], %{{.*}}) : (tensor<2x3x5x5xf32>, tensor<1x3x1x1xf32>)
// CHECK:         return %[[R]]
func.func @normalise(%x: tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32> {
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<3xf32>
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = false} : (tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tuple<tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>>) -> tensor<2x3x5x5xf32>
  return %1 : tensor<2x3x5x5xf32>
}

// -----

// Computed statistics stay as they are.
// CHECK-LABEL: func.func @computed_statistics
// CHECK:         relax.nn_batch_norm
func.func @computed_statistics(%x: tensor<2x3x5x5xf32>, %m: tensor<3xf32>) -> tensor<2x3x5x5xf32> {
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<3xf32>
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %m, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = false} : (tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tuple<tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>>) -> tensor<2x3x5x5xf32>
  return %1 : tensor<2x3x5x5xf32>
}

// -----

// In f16 the statistics would be rounded: they are computed in f32, and accumulators stay f32 until
// the end. The f16 weights are not scaled.
// CHECK-LABEL: func.func @half
// CHECK-DAG:     %[[C:.+]] = "relax.astype"(%{{.+}}) {dtype = f32} : (tensor<3xf16>)
// CHECK-DAG:     %[[Y:.+]] = "relax.nn_conv2d"(%arg0, %{{.+}}) {{.*}}out_dtype = f32{{.*}} -> tensor<2x3x5x5xf32>
// CHECK:         %[[SCALED:.*]] = "relax.multiply"(%[[Y]], %{{.*}}) : (tensor<2x3x5x5xf32>, tensor<1x3x1x1xf32>)
// CHECK:         %[[R:.*]] = "relax.add"(%[[SCALED]], %{{.*}}) : (tensor<2x3x5x5xf32>, tensor<1x3x1x1xf32>)
// CHECK:         %[[H:.+]] = "relax.astype"(%[[R]]) {dtype = f16}
// CHECK:         return %[[H]]
func.func @half(%data: tensor<2x8x5x5xf16>) -> tensor<2x3x5x5xf16> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<3x8x1x1xf16>
  %x = "relax.nn_conv2d"(%data, %w) {data_layout = "NCHW", kernel_layout = "OIHW", out_layout = "NCHW", dilation = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, out_dtype} : (tensor<2x8x5x5xf16>, tensor<3x8x1x1xf16>) -> tensor<2x3x5x5xf16>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<3xf16>
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = false} : (tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>) -> tuple<tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>>) -> tensor<2x3x5x5xf16>
  return %1 : tensor<2x3x5x5xf16>
}

// -----

// A normalisation with further users stays, and so does its convolution, which would be computed
// twice.
// CHECK-LABEL: func.func @half_read_twice
// CHECK:         %[[Y:.+]] = "relax.nn_conv2d"(%arg0, %{{.+}}) {{.*}} -> tensor<2x3x5x5xf16>
// CHECK:         relax.nn_batch_norm
// CHECK-NOT:     relax.nn_conv2d
// CHECK:         "relax.astype"(%[[Y]]) {dtype = f32}
// CHECK:         return
func.func @half_read_twice(%data: tensor<2x8x5x5xf16>) -> (tensor<2x3x5x5xf16>, tensor<3xf16>) {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<3x8x1x1xf16>
  %x = "relax.nn_conv2d"(%data, %w) {data_layout = "NCHW", kernel_layout = "OIHW", out_layout = "NCHW", dilation = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, out_dtype} : (tensor<2x8x5x5xf16>, tensor<3x8x1x1xf16>) -> tensor<2x3x5x5xf16>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<3xf16>
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = false} : (tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>) -> tuple<tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>>) -> tensor<2x3x5x5xf16>
  %2 = "relax.tuple_get_item"(%0) {index = 1 : i64} : (tuple<tensor<2x3x5x5xf16>, tensor<3xf16>, tensor<3xf16>>) -> tensor<3xf16>
  return %1, %2 : tensor<2x3x5x5xf16>, tensor<3xf16>
}

// -----

// In training the statistics are those of the batch.
// CHECK-LABEL: func.func @training
// CHECK:         relax.nn_batch_norm
func.func @training(%x: tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32> {
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<3xf32>
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = true, training = true} : (tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tuple<tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>>) -> tensor<2x3x5x5xf32>
  return %1 : tensor<2x3x5x5xf32>
}

// -----

// Without scale and shift of its own it divides by the deviation and subtracts the mean; channels
// may be last.
// CHECK-LABEL: func.func @plain
// CHECK:         relax.divide
// CHECK:         relax.reshape{{.*}} -> tensor<1x1x1x5xf32>
// CHECK:         relax.subtract{{.*}} : (tensor<2x3x5x5xf32>, tensor<1x1x1x5xf32>)
// CHECK-NOT:     relax.nn_batch_norm
func.func @plain(%x: tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32> {
  %c = "relax.constant"() {value = #relax.const<"d">} : () -> tensor<5xf32>
  %0 = "relax.nn_batch_norm"(%x, %c, %c, %c, %c) {axis = -1 : i64, center = false, epsilon = 1.0e-05 : f64, momentum = 0.1 : f64, scale = false, training = false} : (tensor<2x3x5x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tuple<tensor<2x3x5x5xf32>, tensor<5xf32>, tensor<5xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2x3x5x5xf32>, tensor<5xf32>, tensor<5xf32>>) -> tensor<2x3x5x5xf32>
  return %1 : tensor<2x3x5x5xf32>
}

// -----

// A scale per output channel is folded into the weights, on either side of the multiplication.
// CHECK-LABEL: func.func @scale_weights
// CHECK:         %[[F:.*]] = "relax.reshape"(%{{.*}}) {{.*}} -> tensor<7x1x1x1xf32>
// CHECK:         %[[W:.*]] = "relax.multiply"(%{{.*}}, %[[F]]) : (tensor<7x3x1x1xf32>, tensor<7x1x1x1xf32>)
// CHECK:         %[[R:.*]] = "relax.nn_conv2d"(%arg0, %[[W]])
// CHECK-NOT:     relax.multiply
// CHECK:         return %[[R]]
func.func @scale_weights(%x: tensor<1x3x5x5xf32>) -> tensor<1x7x5x5xf32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<7x1x1xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %1 = "relax.multiply"(%c, %0) : (tensor<7x1x1xf32>, tensor<1x7x5x5xf32>) -> tensor<1x7x5x5xf32>
  return %1 : tensor<1x7x5x5xf32>
}

// -----

// A scalar scale, too.
// CHECK-LABEL: func.func @scale_all
// CHECK:         "relax.reshape"(%{{.*}}) {{.*}} -> tensor<1x1x1x1xf32>
// CHECK:         %[[R:.*]] = "relax.nn_conv2d"
// CHECK-NEXT:    return %[[R]]
func.func @scale_all(%x: tensor<1x3x5x5xf32>) -> tensor<1x7x5x5xf32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<1xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %1 = "relax.multiply"(%0, %c) : (tensor<1x7x5x5xf32>, tensor<1xf32>) -> tensor<1x7x5x5xf32>
  return %1 : tensor<1x7x5x5xf32>
}

// -----

// Layout attributes give the channel axes of result and weights.
// CHECK-LABEL: func.func @last_channels
// CHECK:         %[[F:.*]] = "relax.reshape"(%{{.*}}) {{.*}} -> tensor<1x1x1x7xf32>
// CHECK:         %[[W:.*]] = "relax.multiply"(%{{.*}}, %[[F]]) : (tensor<1x1x3x7xf32>, tensor<1x1x1x7xf32>)
// CHECK:         %[[R:.*]] = "relax.nn_conv2d"(%arg0, %[[W]])
// CHECK-NEXT:    return %[[R]]
func.func @last_channels(%x: tensor<1x5x5x3xf32>) -> tensor<1x5x5x7xf32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<1x1x3x7xf32>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<7xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = unit, out_dtype = unit} : (tensor<1x5x5x3xf32>, tensor<1x1x3x7xf32>) -> tensor<1x5x5x7xf32>
  %1 = "relax.multiply"(%0, %c) : (tensor<1x5x5x7xf32>, tensor<7xf32>) -> tensor<1x5x5x7xf32>
  return %1 : tensor<1x5x5x7xf32>
}

// -----

// A scale per pixel, a computed scale, computed weights, a second user: the multiplication stays.
// CHECK-LABEL: func.func @stays
// CHECK-NOT:     relax.reshape
// CHECK:         return
func.func @stays(%x: tensor<1x3x5x5xf32>, %v: tensor<7x3x1x1xf32>, %f: tensor<7x1x1xf32>) -> (tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>) {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %p = "relax.constant"() {value = #relax.const<"p">} : () -> tensor<5xf32>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<7x1x1xf32>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %1 = "relax.multiply"(%0, %p) : (tensor<1x7x5x5xf32>, tensor<5xf32>) -> tensor<1x7x5x5xf32>
  %2 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %g = "relax.exp"(%f) : (tensor<7x1x1xf32>) -> tensor<7x1x1xf32>
  %3 = "relax.multiply"(%2, %g) : (tensor<1x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<1x7x5x5xf32>
  %4 = "relax.nn_conv2d"(%x, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %5 = "relax.multiply"(%4, %c) : (tensor<1x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<1x7x5x5xf32>
  %6 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %7 = "relax.multiply"(%6, %c) : (tensor<1x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<1x7x5x5xf32>
  return %1, %3, %5, %6, %7 : tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>
}

// -----

// After a convolution, multiplication distributes over addition: the scale reaches the weights.
// CHECK-LABEL: func.func @scale_before_shift
// CHECK:         %[[W:.*]] = "relax.multiply"(%{{.*}}, %{{.*}}) : (tensor<7x3x1x1xf32>, tensor<7x1x1x1xf32>)
// CHECK:         %[[Y:.*]] = "relax.nn_conv2d"(%arg0, %[[W]])
// CHECK:         %[[S:.*]] = "relax.multiply"(%{{.*}}, %{{.*}}) : (tensor<7x1x1xf32>, tensor<7x1x1xf32>)
// CHECK:         %[[R:.*]] = "relax.add"(%[[Y]], %[[S]])
// CHECK:         return %[[R]]
func.func @scale_before_shift(%x: tensor<1x3x5x5xf32>) -> tensor<1x7x5x5xf32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %y = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %a = "relax.constant"() {value = #relax.const<"a">} : () -> tensor<7x1x1xf32>
  %b = "relax.constant"() {value = #relax.const<"b">} : () -> tensor<7x1x1xf32>
  %0 = "relax.add"(%a, %y) : (tensor<7x1x1xf32>, tensor<1x7x5x5xf32>) -> tensor<1x7x5x5xf32>
  %1 = "relax.multiply"(%b, %0) : (tensor<7x1x1xf32>, tensor<1x7x5x5xf32>) -> tensor<1x7x5x5xf32>
  return %1 : tensor<1x7x5x5xf32>
}

// -----

// Not if the sum is larger than the convolution.
// CHECK-LABEL: func.func @larger
// CHECK:         %[[Y:.*]] = "relax.nn_conv2d"
// CHECK:         %[[S:.*]] = "relax.add"(%[[Y]], %{{.*}})
// CHECK:         "relax.multiply"(%[[S]], %{{.*}})
func.func @larger(%x: tensor<1x3x5x5xf32>) -> tensor<2x7x5x5xf32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %y = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %a = "relax.constant"() {value = #relax.const<"a">} : () -> tensor<2x7x1x1xf32>
  %b = "relax.constant"() {value = #relax.const<"b">} : () -> tensor<7x1x1xf32>
  %0 = "relax.add"(%y, %a) : (tensor<1x7x5x5xf32>, tensor<2x7x1x1xf32>) -> tensor<2x7x5x5xf32>
  %1 = "relax.multiply"(%0, %b) : (tensor<2x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<2x7x5x5xf32>
  return %1 : tensor<2x7x5x5xf32>
}

// -----

// Elsewhere the order stays: (x + 2^23 * 1.5) - 2^23 * 1.5 rounds, (x - far) * 1000 cancels.
// CHECK-LABEL: func.func @no_convolution
// CHECK:         %[[S:.*]] = "relax.add"(%arg0, %{{.*}})
// CHECK-NEXT:    %[[R:.*]] = "relax.add"(%[[S]], %{{.*}})
// CHECK-NEXT:    %[[D:.*]] = "relax.add"(%[[R]], %{{.*}})
// CHECK-NEXT:    %[[P:.*]] = "relax.multiply"(%[[D]], %{{.*}})
// CHECK-NEXT:    return %[[P]]
func.func @no_convolution(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = "relax.constant"() {value = #relax.const<"a">} : () -> tensor<3xf32>
  %b = "relax.constant"() {value = #relax.const<"b">} : () -> tensor<3xf32>
  %0 = "relax.add"(%x, %a) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "relax.add"(%0, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = "relax.add"(%1, %a) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = "relax.multiply"(%2, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// A sum of two activations has no constant to fold.
// CHECK-LABEL: func.func @computed_sum
// CHECK:         %[[S:.*]] = "relax.add"(%arg0, %arg1)
// CHECK-NEXT:    %[[P:.*]] = "relax.multiply"(%[[S]], %{{.*}})
// CHECK-NEXT:    %[[R:.*]] = "relax.add"(%[[P]], %arg1)
// CHECK-NEXT:    return %[[R]]
func.func @computed_sum(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<3xf32>
  %0 = "relax.add"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.multiply"(%0, %c) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = "relax.add"(%1, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// Shifts are added.
// CHECK-LABEL: func.func @join_shifts
// CHECK:         %[[Y:.*]] = "relax.nn_conv2d"
// CHECK-DAG:     %[[A:.*]] = "relax.constant"() {value = #relax.const<"a">}
// CHECK-DAG:     %[[B:.*]] = "relax.constant"() {value = #relax.const<"b">}
// CHECK:         %[[S:.*]] = "relax.add"(%[[A]], %[[B]]) : (tensor<7x1x1xf32>, tensor<7x1x1xf32>)
// CHECK:         %[[R:.*]] = "relax.add"(%[[Y]], %[[S]])
// CHECK:         return %[[R]]
func.func @join_shifts(%x: tensor<1x3x5x5xf32>) -> tensor<1x7x5x5xf32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %y = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %a = "relax.constant"() {value = #relax.const<"a">} : () -> tensor<7x1x1xf32>
  %b = "relax.constant"() {value = #relax.const<"b">} : () -> tensor<7x1x1xf32>
  %0 = "relax.add"(%y, %a) : (tensor<1x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<1x7x5x5xf32>
  %1 = "relax.add"(%b, %0) : (tensor<7x1x1xf32>, tensor<1x7x5x5xf32>) -> tensor<1x7x5x5xf32>
  return %1 : tensor<1x7x5x5xf32>
}

// -----

// A sum with two users stays, or it would be computed twice.
// CHECK-LABEL: func.func @read_twice
// CHECK:         %[[Y:.*]] = "relax.nn_conv2d"
// CHECK:         %[[S:.*]] = "relax.add"(%[[Y]], %{{.*}})
// CHECK:         %[[R:.*]] = "relax.add"(%[[S]], %{{.*}})
// CHECK:         return %[[S]], %[[R]]
func.func @read_twice(%x: tensor<1x3x5x5xf32>) -> (tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>) {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xf32>
  %y = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = unit} : (tensor<1x3x5x5xf32>, tensor<7x3x1x1xf32>) -> tensor<1x7x5x5xf32>
  %a = "relax.constant"() {value = #relax.const<"a">} : () -> tensor<7x1x1xf32>
  %b = "relax.constant"() {value = #relax.const<"b">} : () -> tensor<7x1x1xf32>
  %0 = "relax.add"(%y, %a) : (tensor<1x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<1x7x5x5xf32>
  %1 = "relax.add"(%0, %b) : (tensor<1x7x5x5xf32>, tensor<7x1x1xf32>) -> tensor<1x7x5x5xf32>
  return %0, %1 : tensor<1x7x5x5xf32>, tensor<1x7x5x5xf32>
}

// -----

// Integer weights cannot hold the product: the accumulators, which are wide, are multiplied.
// CHECK-LABEL: func.func @bytes
// CHECK:         %[[Y:.*]] = "relax.nn_conv2d"(%arg0, %{{.*}}) {{.*}} : (tensor<1x3x5x5xui8>, tensor<7x3x1x1xi8>)
// CHECK:         %[[R:.*]] = "relax.multiply"(%[[Y]], %{{.*}})
// CHECK:         return %[[R]]
func.func @bytes(%x: tensor<1x3x5x5xui8>) -> tensor<1x7x5x5xi32> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<7x3x1x1xi8>
  %y = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "OIHW", out_layout = unit, out_dtype = i32} : (tensor<1x3x5x5xui8>, tensor<7x3x1x1xi8>) -> tensor<1x7x5x5xi32>
  %c = "relax.constant"() {value = #relax.const<"c">} : () -> tensor<7x1x1xi32>
  %0 = "relax.multiply"(%y, %c) : (tensor<1x7x5x5xi32>, tensor<7x1x1xi32>) -> tensor<1x7x5x5xi32>
  return %0 : tensor<1x7x5x5xi32>
}
