// RUN: relax-opt %s -p relax-to-mixed-precision{out-dtype=float16} | filecheck %s
// RUN: relax-opt %s -p relax-to-mixed-precision{fp16-input-names=w} | filecheck %s --check-prefix=INPUT

// A product reads half precision; what the block gives is as before.
// CHECK-LABEL:   func.func @main
// CHECK:         "relax.astype"(%arg0) {{.*}} -> tensor<2x3xf16>
// CHECK:         "relax.astype"(%arg1) {{.*}} -> tensor<3x5xf16>
// CHECK:         "relax.matmul"({{.*}}) {out_dtype = f16{{.*}} -> tensor<2x5xf16>
// CHECK:         "relax.astype"({{.*}} -> tensor<2x5xf32>

// A parameter that is named comes in half precision.
// INPUT-LABEL:   func.func @main(%arg0: tensor<2x3xf32> {relax.name = "x"}, %arg1: tensor<3x5xf16> {relax.name = "w"})
// INPUT:         "relax.matmul"({{.*}}, %arg1) {out_dtype = f32{{.*}} -> tensor<2x5xf32>
func.func @main(%x: tensor<2x3xf32> {relax.name = "x"}, %w: tensor<3x5xf32> {relax.name = "w"}) -> tensor<2x5xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
