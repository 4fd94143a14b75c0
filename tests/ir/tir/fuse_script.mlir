// RUN: relax-opt %s -p relax-legalize,tir-fuse{inline=false} | filecheck %s

// The blocks of both programs are concatenated, with unique names.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.call_tir"(%{{.*}}) {callee = @fused, relax.dataflow = 0 : i64, relax.name = "gv"
// CHECK:       func.func private @fused
// CHECK-SAME:    relax.attrs = {tir.noalias = true}
// CHECK:         %[[T:.*]] = "tir.alloc_buffer"
// CHECK:           memref.store %{{.*}}, %[[T]]
// CHECK:         name = "exp"
// CHECK:           memref.load %[[T]]
// CHECK:         name = "exp_1"
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call"(%0) {callee = @fused, relax.dataflow = 0 : i64, relax.name = "gv"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @fused(%x: tensor<2xf32>) -> tensor<2xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @tir_exp, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<2xf32> to tuple<tensor<2xf32>>
  %3 = "relax.call_tir"(%2) {callee = @tir_exp, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
func.func private @tir_exp(%x: memref<2xf32>, %y: memref<2xf32>) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  "tir.block"() ({
  }, {
  ^bb0(%i: index):
    %0 = memref.load %x[%i] : memref<2xf32>
    %1 = math.exp %0 : f32
    memref.store %1, %y[%i] : memref<2xf32>
    gpu.yield
  }) {kinds = "S", name = "exp", operandSegmentSizes = array<i32: 0, 0>, static_extents = array<i64: 2>} : () -> ()
  return
}
