// RUN: relax-opt %s -p relax-fuse-ops-by-pattern{patterns=mine.mul_relu:relax.multiply:relax.nn.relu} | filecheck %s
// RUN: relax-opt %s -p 'relax-fuse-ops-by-pattern{annotate-codegen=true patterns=mine.mul_relu:relax.multiply:relax.nn.relu}' | filecheck %s --check-prefix=TOLD
// RUN: relax-opt %s -p 'relax-fuse-ops-by-pattern{bind-constants=false patterns=mine.mul_relu:relax.multiply:relax.nn.relu}' | filecheck %s --check-prefix=LIFTED
// RUN: relax-opt %s -p 'relax-fuse-ops-by-pattern{entry-functions=other patterns=mine.mul_relu:relax.multiply:relax.nn.relu}' | filecheck %s --check-prefix=OTHER

// A chain of operators becomes a function annotated with its pattern; constants stay inside.
// CHECK:         @main(%arg0: tensor<3xf32> {relax.name = "x"})
// CHECK-NEXT:    "relax.sqrt"(%arg0)
// CHECK:         "relax.call"(%{{.*}}) {callee = @fused_relax_multiply_relax_nn_relu
// CHECK-LABEL:   func.func private @fused_relax_multiply_relax_nn_relu(%arg0: tensor<3xf32>
// CHECK-SAME:    Composite = "mine.mul_relu"
// CHECK:         "relax.constant"
// CHECK:         "relax.multiply"
// CHECK-NEXT:    "relax.nn_relu"

// An outer function names its external compiler.
// TOLD:          func.func @fused_relax_multiply_relax_nn_relu_mine(
// TOLD-SAME:     Codegen = "mine"

// Constants can be parameters.
// LIFTED-LABEL:  func.func private @fused_relax_multiply_relax_nn_relu(%arg0: tensor<3xf32> {{.*}}, %arg1: tensor<3xf32>
// LIFTED-NEXT:     "relax.multiply"(%arg0, %arg1)

// Only the listed functions are changed.
// OTHER-NOT:     Composite
func.func @main(%x: tensor<3xf32> {relax.name = "x"}) -> tensor<3xf32> {
  %0 = "relax.sqrt"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<3xf32>) -> tensor<3xf32>
  %c = "relax.constant"() {value = dense<2.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %1 = "relax.multiply"(%0, %c) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "relax.nn_relu"(%1) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}

func.func @other(%x: tensor<3xf32> {relax.name = "x"}) -> tensor<3xf32> {
  %0 = "relax.sqrt"(%x) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
