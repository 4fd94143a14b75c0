// RUN: relax-opt %s -p relax-legalize{keep-views=false} | filecheck %s
// RUN: relax-opt %s -p "relax-legalize{keep-views=false inline-scalars=true}" | filecheck %s --check-prefix=SCALARS
// RUN: relax-opt %s -p relax-legalize{inline-scalars=true} | filecheck %s --check-prefix=VIEWS
// RUN: relax-opt %s -p relax-legalize{skip-ops=relax.exp} | filecheck %s --check-prefix=SKIP

// As in a script, programs are private and a reshape is a program; a scalar may be inlined.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.call_tir"(%{{.*}}) {callee = @add, relax.dataflow = 0 : i64, relax.name = "lv"
// CHECK:         callee = @reshape, relax.dataflow = 0 : i64, relax.name = "lv1"
// CHECK:       func.func private @add(%arg0: memref<2x3xf32>, %arg1: memref<f32>
// CHECK-SAME:    relax.attrs = {tir.noalias = true}
// SCALARS:     func.func private @add(%arg0: memref<2x3xf32>, %arg1: memref<2x3xf32>)
// SCALARS:       arith.constant 5.0
// VIEWS:       "relax.reshape"
// VIEWS:       func.func @add(%arg0: memref<2x3xf32>, %arg1: memref<2x3xf32>)
// SKIP:        "relax.exp"
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %five = "relax.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.add"(%x, %five) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["6"]>, relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<2x3xf32>) -> tensor<6xf32>
  %2 = "relax.exp"(%1) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<6xf32>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}
