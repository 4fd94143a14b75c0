// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd{vector-bits=512 bf16-dot=true}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd{vector-bits=512} --split-input-file | filecheck %s --check-prefix=WIDE
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd{vector-bits=512 int8-dot=true}" --split-input-file | filecheck %s --check-prefix=WIDE
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-use-winograd{vector-bits=512 amx=true}" --split-input-file | filecheck %s --check-prefix=TILES

// bf16 images are extended as tiles are read; the transformed kernel is f32.
// CHECK-LABEL: func.func @large
// CHECK-LABEL: func.func @conv2d_winograd(
// CHECK-SAME:    memref<1x66x66x64xbf16>, %{{.+}}: memref<3x3x{{.+}}x64x{{.+}}xbf16>, %{{.+}}: memref<6x6x{{.+}}x64x{{.+}}xf32>
// CHECK:         arith.extf {{.*}} : bf16 to f32
// CHECK:         name = "conv2d"
// WIDE-LABEL:  func.func @large
// With bf16 AMX no image is large enough.
// TILES-LABEL: func.func @large
// TILES-NOT:     winograd
func.func @large(%x: tensor<1x66x66x64xbf16>) -> tensor<1x64x64x64xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x64x64xbf16>} : () -> tensor<3x3x64x64xbf16>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype = f32} : (tensor<1x66x66x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<1x64x64x64xf32>
  return %0 : tensor<1x64x64x64xf32>
}

// -----

// With bf16 dot products small images are faster without.
// CHECK-LABEL: func.func @small
// CHECK-NOT:     winograd
// WIDE-LABEL:  func.func @small
// WIDE:          callee = @conv2d_winograd
func.func @small(%x: tensor<1x16x16x64xbf16>) -> tensor<1x14x14x64xf32> {
  %w = "relax.constant"() {value = dense<0.5> : tensor<3x3x64x64xbf16>} : () -> tensor<3x3x64x64xbf16>
  %0 = "relax.nn_conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NHWC", out_dtype = f32} : (tensor<1x16x16x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<1x14x14x64xf32>
  return %0 : tensor<1x14x14x64xf32>
}
