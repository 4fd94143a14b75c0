// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512 amx=true}" --split-input-file | filecheck %s

// Panels are as wide as two AMX tiles, and hold words of two steps of K.
// CHECK-LABEL: func.func @wide
// CHECK:         tensor<4x32x32x2xbf16>
func.func @wide(%a: tensor<40x64xbf16>) -> tensor<40x100xf32> {
  %w = "relax.constant"() {value = dense<1.0> : tensor<64x100xbf16>} : () -> tensor<64x100xbf16>
  %0 = "relax.matmul"(%a, %w) {out_dtype = f32} : (tensor<40x64xbf16>, tensor<64x100xbf16>) -> tensor<40x100xf32>
  return %0 : tensor<40x100xf32>
}

// -----

// One tile is enough for few columns.
// CHECK-LABEL: func.func @narrow
// CHECK:         tensor<1x32x16x2xbf16>
func.func @narrow(%a: tensor<40x64xbf16>) -> tensor<40x12xf32> {
  %w = "relax.constant"() {value = dense<1.0> : tensor<64x12xbf16>} : () -> tensor<64x12xbf16>
  %0 = "relax.matmul"(%a, %w) {out_dtype = f32} : (tensor<40x64xbf16>, tensor<64x12xbf16>) -> tensor<40x12xf32>
  return %0 : tensor<40x12xf32>
}

// -----

// Contractions that AMX does not support are packed as usual: odd K, and few rows.
// CHECK-LABEL: func.func @odd
// CHECK:         tensor<{{[0-9]+}}x33x{{[0-9]+}}xbf16>
func.func @odd(%a: tensor<40x33xbf16>) -> tensor<40x100xf32> {
  %w = "relax.constant"() {value = dense<1.0> : tensor<33x100xbf16>} : () -> tensor<33x100xbf16>
  %0 = "relax.matmul"(%a, %w) {out_dtype = f32} : (tensor<40x33xbf16>, tensor<33x100xbf16>) -> tensor<40x100xf32>
  return %0 : tensor<40x100xf32>
}

// -----

// CHECK-LABEL: func.func @few
// CHECK:         tensor<{{[0-9]+}}x64x{{[0-9]+}}xbf16>
func.func @few(%a: tensor<3x64xbf16>) -> tensor<3x100xf32> {
  %w = "relax.constant"() {value = dense<1.0> : tensor<64x100xbf16>} : () -> tensor<64x100xbf16>
  %0 = "relax.matmul"(%a, %w) {out_dtype = f32} : (tensor<3x64xbf16>, tensor<64x100xbf16>) -> tensor<3x100xf32>
  return %0 : tensor<3x100xf32>
}
