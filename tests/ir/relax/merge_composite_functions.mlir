// RUN: relax-opt %s -p 'relax-fuse-ops-by-pattern{patterns=mine.sqrt:relax.sqrt,mine.relu:relax.nn.relu},relax-merge-composite-functions' | filecheck %s

// The operators for one external compiler become one public function with its composite functions.
// CHECK-LABEL:   func.func @main
// CHECK:         "relax.call"(%{{.*}}) {callee = @[[F:.*_mine]],
// CHECK-NOT:     relax.sqrt
// CHECK:         func.func @[[F]](
// CHECK-SAME:    Codegen = "mine"
// CHECK:         "relax.function"
// CHECK:         Composite = "mine.sqrt"
// CHECK:         "relax.function"
// CHECK:         Composite = "mine.relu"
func.func @main(%x: tensor<3xf32> {relax.name = "x"}) -> tensor<3xf32> {
  %0 = "relax.sqrt"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "relax.nn_relu"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
