// RUN: relax-opt %s -p relax-verify{require-constants=true} --expect-error | filecheck %s

// A textual module may come without its arrays; running it needs all of them.
// CHECK: error: invalid module: {{.*}}verify_constants.mlir:6:8: `relax.constant`: array `w` is not among the module's constants
func.func @main() -> tensor<4xf32> {
  %0 = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
