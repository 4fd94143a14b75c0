// RUN: relax-opt %s -p relax-legalize,relax-annotate-tir-op-pattern,relax-fuse-dataflow --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-annotate-tir-op-pattern,relax-fuse-dataflow,relax-fuse-dataflow --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-annotate-tir-op-pattern,relax-fuse-dataflow{level=0} --split-input-file | filecheck %s --check-prefix=NONE
// RUN: relax-opt %s -p relax-legalize,relax-annotate-tir-op-pattern,relax-fuse-dataflow{max-depth=1} --split-input-file | filecheck %s --check-prefix=NONE
// RUN: relax-opt %s -p relax-legalize,relax-annotate-tir-op-pattern,relax-fuse-dataflow{lift-constants=false} --split-input-file | filecheck %s --check-prefix=INSIDE

// Bindings of a dataflow block become one private function.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.call"(%{{.*}}) {callee = @fused_add_tir_exp, relax.dataflow = 0 : i64, relax.name = "gv", relax.output}
// CHECK:       func.func private @fused_add_tir_exp(%arg0: tensor<2xf32> {relax.name = "x"}, %arg1: tensor<f32> {relax.name = "param_0"})
// CHECK-SAME:    relax.attrs = {Primitive = true}, relax.primitive
// NONE-LABEL:  func.func @main
// NONE-NOT:    @fused
// INSIDE-LABEL: func.func @main
// INSIDE-NOT:    relax.constant
// INSIDE:      func.func private @fused_add_tir_exp(%arg0: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32>
// INSIDE:        relax.constant
func.func @main(%x: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32> {
  %one = "relax.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.add"(%x, %one) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A value visible outside of the block ends a group; its users form another.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @add
// CHECK:         callee = @tir_exp
// CHECK-NOT:     @fused
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "relax.add"(%x, %x) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "gv1", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// -----

// A matmul takes the diamond of elementwise calls that follows it; a reduction is not fused with
// it.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @fused_matmul_tir_exp_add
// CHECK:         callee = @sum
func.func @main(%x: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = "relax.matmul"(%x, %x) {out_dtype, relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "relax.add"(%0, %1) {relax.dataflow = 0 : i64, relax.name = "lv2"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = "relax.sum"(%2) {axis = array<i64: 1>, keepdims = false, relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2x2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

// Bindings outside of dataflow blocks stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     @fused
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.add"(%x, %x) {relax.dataflow = -1 : i64, relax.name = "gv"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = -1 : i64, relax.name = "gv1"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Equal groups share one function; others get a number.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @fused_tir_exp_tir_tanh, relax.dataflow
// CHECK:         callee = @fused_tir_exp_tir_tanh, relax.dataflow
// CHECK-NOT:   @fused_tir_exp_tir_tanh1
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.tanh"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.exp"(%y) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "relax.tanh"(%2) {relax.dataflow = 0 : i64, relax.name = "gv1", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %3 : tensor<2xf32>, tensor<2xf32>
}

// -----

// Elements of a tuple are fused into their users; the function takes those that it reads.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @fused_tir_exp,
// CHECK:       func.func private @fused_tir_exp(%arg0: tensor<2xf32> {relax.name = "t_1"})
func.func @main(%t: tuple<tensor<3xf32>, tensor<2xf32>> {relax.name = "t"}) -> tensor<2xf32> {
  %0 = "relax.tuple_get_item"(%t) {index = 1 : i64, relax.dataflow = 0 : i64, relax.name = "lv"} : (tuple<tensor<3xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Functions are made in the order of the last binding of each group.
// CHECK-LABEL: func.func @main
// CHECK:       func.func private @fused_tir_sin_tir_cos_{{.*}}(
// CHECK:       func.func private @fused_tir_exp_tir_tanh_{{.*}}(
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.tanh"(%0) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "relax.sin"(%y) {relax.dataflow = 0 : i64, relax.name = "lv2"} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "relax.cos"(%2) {relax.dataflow = 0 : i64, relax.name = "lv3"} : (tensor<2xf32>) -> tensor<2xf32>
  %4 = "relax.negative"(%3) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %5 = "relax.sqrt"(%1) {relax.dataflow = 0 : i64, relax.name = "gv1", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %4, %5 : tensor<2xf32>, tensor<2xf32>
}
