// RUN: relax-opt %s -p relax-plan-memory,relax-lower-main --split-input-file --expect-error | filecheck %s
// RUN: relax-opt %s -p relax-lower-main --split-input-file --expect-error | filecheck %s --check-prefix=PLAN

// PLAN: error: `main` has no memory plan. Hint: run `relax-plan-memory` first.

// An operation without a tensor program cannot be called.
// CHECK: error: {{.*}}lower_main_errors.mlir:9:8: `relax.exp`: expected calls of tensor programs only. Hint: run `relax-legalize` first.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "relax.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// There is nothing to lower.
// CHECK: error: module has no function `main`
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
