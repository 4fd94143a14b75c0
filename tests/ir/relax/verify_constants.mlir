// RUN: relax-opt %s -p relax-verify{require-constants=true} --expect-error | filecheck %s

// A text comes without its arrays; whoever wants to run it needs them all.
// CHECK: error: invalid module: {{.*}}verify_constants.mlir:6:8: `relax.constant`: array `w` is not among the module's constants
func.func @main() -> tensor<4xf32> {
  %0 = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
