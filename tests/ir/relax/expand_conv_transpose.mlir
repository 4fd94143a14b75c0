// RUN: relax-opt %s -p relax-expand-conv-transpose --split-input-file | filecheck %s

// With stride 2, every second element comes from one of four convolutions with half the kernel.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.nn_pad"(%arg1)
// CHECK-SAME:    pad_width = #relax.shape<["0", "0", "0", "0", "0", "1", "0", "1"]>
// CHECK-NEXT:    "relax.reshape"
// CHECK-SAME:    -> tensor<1x3x5x2x2x2x2xf32>
// CHECK-NEXT:    "relax.flip"
// CHECK-SAME:    axis = 3
// CHECK-NEXT:    "relax.flip"
// CHECK-SAME:    axis = 5
// CHECK-NEXT:    "relax.permute_dims"
// CHECK-SAME:    axes = array<i64: 0, 2, 4, 6, 1, 3, 5>
// CHECK-NEXT:    %[[KERNEL:.+]] = "relax.reshape"
// CHECK-SAME:    -> tensor<20x3x2x2xf32>
// CHECK-NEXT:    "relax.nn_conv2d"(%arg0, %[[KERNEL]])
// CHECK-SAME:    padding = array<i64: 1, 1, 1, 1>
// CHECK-SAME:    -> tensor<2x20x7x8xf32>
// CHECK-NEXT:    "relax.reshape"
// CHECK-SAME:    -> tensor<2x5x2x2x7x8xf32>
// CHECK-NEXT:    "relax.permute_dims"
// CHECK-SAME:    axes = array<i64: 0, 1, 4, 2, 5, 3>
// CHECK-NEXT:    "relax.reshape"
// CHECK-SAME:    -> tensor<2x5x14x16xf32>
// CHECK-NEXT:    "relax.strided_slice"
// CHECK-SAME:    begin = #relax.shape<["1", "1"]>
// CHECK-SAME:    end = #relax.shape<["12", "14"]>
func.func @main(%x: tensor<2x3x6x7xf32>, %w: tensor<3x5x3x3xf32>) -> tensor<2x5x11x13xf32> {
  %0 = "relax.nn_conv2d_transpose"(%x, %w) {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, output_padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NCHW", kernel_layout = "IOHW", out_layout = unit, out_dtype = unit} : (tensor<2x3x6x7xf32>, tensor<3x5x3x3xf32>) -> tensor<2x5x11x13xf32>
  return %0 : tensor<2x5x11x13xf32>
}

// -----

// A kernel as long as the stride gives a matmul; groups are kept.
// CHECK-LABEL: func.func @open
// CHECK-NOT:     relax.nn_pad
// CHECK:         "relax.nn_conv1d"(%arg0
// CHECK-SAME:    groups = 2
// CHECK-SAME:    padding = array<i64: 0, 0>
// CHECK-NOT:     relax.strided_slice
// CHECK:         return
func.func @open(%x: tensor<1x4x?xf32, #relax.shape<["1", "4", "n"]>>, %w: tensor<4x3x2xf32>) -> tensor<1x6x?xf32, #relax.shape<["1", "6", "2*n"]>> {
  %0 = "relax.nn_conv1d_transpose"(%x, %w) {strides = array<i64: 2>, padding = array<i64: 0, 0>, output_padding = array<i64: 0>, dilation = array<i64: 1>, groups = 2 : i64, data_layout = "NCW", kernel_layout = "IOW", out_layout = unit, out_dtype = unit} : (tensor<1x4x?xf32, #relax.shape<["1", "4", "n"]>>, tensor<4x3x2xf32>) -> tensor<1x6x?xf32, #relax.shape<["1", "6", "2*n"]>>
  return %0 : tensor<1x6x?xf32, #relax.shape<["1", "6", "2*n"]>>
}

// -----

// A dilated kernel, and one in another layout, stay.
// CHECK-LABEL: func.func @gaps
// CHECK-NEXT:    "relax.nn_conv1d_transpose"(%arg0, %arg1)
func.func @gaps(%x: tensor<1x4x5xf32>, %w: tensor<4x3x2xf32>) -> tensor<1x3x11xf32> {
  %0 = "relax.nn_conv1d_transpose"(%x, %w) {strides = array<i64: 2>, padding = array<i64: 0, 0>, output_padding = array<i64: 0>, dilation = array<i64: 2>, groups = 1 : i64, data_layout = "NCW", kernel_layout = "IOW", out_layout = unit, out_dtype = unit} : (tensor<1x4x5xf32>, tensor<4x3x2xf32>) -> tensor<1x3x11xf32>
  return %0 : tensor<1x3x11xf32>
}
// CHECK-LABEL: func.func @channels_last
// CHECK-NEXT:    "relax.nn_conv1d_transpose"(%arg0, %arg1)
func.func @channels_last(%x: tensor<1x5x4xf32>, %w: tensor<4x3x2xf32>) -> tensor<1x10x3xf32> {
  %0 = "relax.nn_conv1d_transpose"(%x, %w) {strides = array<i64: 2>, padding = array<i64: 0, 0>, output_padding = array<i64: 0>, dilation = array<i64: 1>, groups = 1 : i64, data_layout = "NWC", kernel_layout = "IOW", out_layout = unit, out_dtype = unit} : (tensor<1x5x4xf32>, tensor<4x3x2xf32>) -> tensor<1x10x3xf32>
  return %0 : tensor<1x10x3xf32>
}
