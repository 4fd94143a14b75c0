// RUN: relax-opt %s -p relax-attach-attr-layout-free-buffers | filecheck %s

// `w` is a weight: once the second operand of the sum, once the first.
// CHECK-NOT:   func.func private @add(
// CHECK-LABEL: func.func @main
// CHECK:         callee = @add1,
// CHECK:         callee = @add2,
// CHECK:         callee = @add1,
// CHECK-LABEL: func.func private @add1
// CHECK-SAME:    layout_free_buffers = [1]
// CHECK-LABEL: func.func private @add2
// CHECK-SAME:    layout_free_buffers = [0]
// CHECK-NOT:   func.func
func.func private @add(%arg0: memref<5xf32> {relax.name = "A"}, %arg1: memref<5xf32> {relax.name = "B"}, %arg2: memref<5xf32> {relax.name = "C"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %c0 = arith.constant 0 : index
  %c5 = arith.constant 5 : index
  %c1 = arith.constant 1 : index
  scf.for %arg3 = %c0 to %c5 step %c1 {
    "tir.block"(%arg3) ({
    }, {
    ^bb0(%arg4: index):
      %0 = memref.load %arg0[%arg4] : memref<5xf32>
      %1 = memref.load %arg1[%arg4] : memref<5xf32>
      %2 = arith.addf %0, %1 : f32
      memref.store %2, %arg2[%arg4] : memref<5xf32>
      gpu.yield
    }) {kinds = "S", name = "b", operandSegmentSizes = array<i32: 0, 1>, static_extents = array<i64: 5>, tir.axis_names = ["vi"]} : (index) -> ()
  } {tir.kind = "serial", tir.name = "i"}
  return
}
func.func @main(%arg0: tensor<5xf32> {relax.name = "x"}, %arg1: tensor<5xf32> {relax.name = "w"}) -> tensor<5xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = builtin.unrealized_conversion_cast %arg0, %arg1 : tensor<5xf32>, tensor<5xf32> to tuple<tensor<5xf32>, tensor<5xf32>>
  %1 = "relax.call_tir"(%0) {callee = @add, relax.dataflow = 0 : i64, relax.name = "a", sizes = #relax.shape<[]>} : (tuple<tensor<5xf32>, tensor<5xf32>>) -> tensor<5xf32>
  %2 = builtin.unrealized_conversion_cast %arg1, %1 : tensor<5xf32>, tensor<5xf32> to tuple<tensor<5xf32>, tensor<5xf32>>
  %3 = "relax.call_tir"(%2) {callee = @add, relax.dataflow = 0 : i64, relax.name = "b", sizes = #relax.shape<[]>} : (tuple<tensor<5xf32>, tensor<5xf32>>) -> tensor<5xf32>
  %4 = builtin.unrealized_conversion_cast %3, %arg1 : tensor<5xf32>, tensor<5xf32> to tuple<tensor<5xf32>, tensor<5xf32>>
  %5 = "relax.call_tir"(%4) {callee = @add, relax.dataflow = 0 : i64, relax.name = "c", relax.output, sizes = #relax.shape<[]>} : (tuple<tensor<5xf32>, tensor<5xf32>>) -> tensor<5xf32>
  %6 = "relax.exp"(%5) {relax.dataflow = -1 : i64, relax.name = "d"} : (tensor<5xf32>) -> tensor<5xf32>
  return %6 : tensor<5xf32>
}
