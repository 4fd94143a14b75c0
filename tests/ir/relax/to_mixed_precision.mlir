// RUN: relax-opt %s -p relax-to-mixed-precision{out-dtype=float16} | filecheck %s
// RUN: relax-opt %s -p relax-to-mixed-precision{fp16-input-names=w} | filecheck %s --check-prefix=INPUT

// A matmul reads half precision; the outputs of the block keep their type.
// CHECK-LABEL:   func.func @main
// CHECK:         "relax.astype"(%arg0) {{.*}} -> tensor<2x3xf16>
// CHECK:         "relax.astype"(%arg1) {{.*}} -> tensor<3x5xf16>
// CHECK:         "relax.matmul"({{.*}}) {out_dtype = f16{{.*}} -> tensor<2x5xf16>
// CHECK:         "relax.astype"({{.*}} -> tensor<2x5xf32>

// Listed parameters get half precision.
// INPUT-LABEL:   func.func @main(%arg0: tensor<2x3xf32> {relax.name = "x"}, %arg1: tensor<3x5xf16> {relax.name = "w"})
// INPUT:         "relax.matmul"({{.*}}, %arg1) {out_dtype = f32{{.*}} -> tensor<2x5xf32>
func.func @main(%x: tensor<2x3xf32> {relax.name = "x"}, %w: tensor<3x5xf32> {relax.name = "w"}) -> tensor<2x5xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype, relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
