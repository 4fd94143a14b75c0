// RUN: relax-opt %s -p 'relax-fuse-ops-by-pattern{patterns=mine.sqrt:relax.sqrt annotate-codegen=true},relax-run-codegen' --expect-error | filecheck %s

// The external compiler must be registered.
// CHECK: error: {{.*}}relax.ext.mine
func.func @main(%x: tensor<3xf32> {relax.name = "x"}) -> tensor<3xf32> {
  %0 = "relax.sqrt"(%x) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
