// RUN: relax-opt %s -p relax-split-layout-rewrite-preproc | filecheck %s

// `pack` alone rewrites the weight's layout; the reduction then takes its result.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]*]]: {{.*}}, %[[W:[a-z0-9]*]]:
// CHECK:         %[[ONE:.*]] = builtin.unrealized_conversion_cast %[[W]] :
// CHECK:         %[[P:.*]] = "relax.call_tir"(%[[ONE]]) {callee = @add_weight_prepack, {{.*}} -> tensor<2x3xf32>
// CHECK:         %[[TWO:.*]] = builtin.unrealized_conversion_cast %[[X]], %[[P]] :
// CHECK:         "relax.call_tir"(%[[TWO]]) {callee = @add_prepacked, {{.*}} -> tensor<6xf32>
// CHECK-LABEL: func.func private @add_weight_prepack(
// CHECK-SAME:    memref<6xf32> {{.*}}, %{{.*}}: memref<2x3xf32>
// CHECK-SAME:    relax.attrs = {kept = 1 : i64}
// CHECK:         name = "pack", operandSegmentSizes = array<i32: 0, 1>, static_extents = array<i64: 6>, tir.axis_names
// CHECK-LABEL: func.func private @add_prepacked(
// CHECK-SAME:    memref<6xf32> {{.*}}, %{{.*}}: memref<2x3xf32> {{.*}}, %{{.*}}: memref<6xf32>
// CHECK-SAME:    relax.attrs = {kept = 1 : i64}
// CHECK-NOT:     alloc_buffer
// CHECK:         name = "b"
// CHECK-NOT:   func.func
func.func private @add(%arg0: memref<6xf32> {relax.name = "A"}, %arg1: memref<6xf32> {relax.name = "W"}, %arg2: memref<6xf32> {relax.name = "C"}) attributes {relax.attrs = {kept = 1 : i64, layout_free_buffers = [1]}, tir.num_outputs = 1 : i64, tir.prim_func} {
  %0 = "tir.alloc_buffer"() {shape = #relax.shape<["2", "3"]>, tir.name = "P"} : () -> memref<2x3xf32>
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %c1 = arith.constant 1 : index
  scf.for %arg3 = %c0 to %c6 step %c1 {
    "tir.block"(%arg3) ({
    }, {
    ^bb0(%arg4: index):
      %1 = memref.load %arg1[%arg4] : memref<6xf32>
      %c3 = arith.constant 3 : index
      %2 = arith.floordivsi %arg4, %c3 : index
      %c3_3 = arith.constant 3 : index
      %3 = arith.remui %arg4, %c3_3 : index
      memref.store %1, %0[%2, %3] : memref<2x3xf32>
      gpu.yield
    }) {kinds = "S", name = "pack", operandSegmentSizes = array<i32: 0, 1>, static_extents = array<i64: 6>, tir.annotations = {meta_schedule.layout_rewrite_preproc = true}, tir.axis_names = ["vi"]} : (index) -> ()
  } {tir.kind = "serial", tir.name = "i"}
  %c0_0 = arith.constant 0 : index
  %c6_1 = arith.constant 6 : index
  %c1_2 = arith.constant 1 : index
  scf.for %arg3 = %c0_0 to %c6_1 step %c1_2 {
    "tir.block"(%arg3) ({
    }, {
    ^bb0(%arg4: index):
      %1 = memref.load %arg0[%arg4] : memref<6xf32>
      %c3 = arith.constant 3 : index
      %2 = arith.floordivsi %arg4, %c3 : index
      %c3_3 = arith.constant 3 : index
      %3 = arith.remui %arg4, %c3_3 : index
      %4 = memref.load %0[%2, %3] : memref<2x3xf32>
      %5 = arith.addf %1, %4 : f32
      memref.store %5, %arg2[%arg4] : memref<6xf32>
      gpu.yield
    }) {kinds = "S", name = "b", operandSegmentSizes = array<i32: 0, 1>, static_extents = array<i64: 6>, tir.axis_names = ["vi"]} : (index) -> ()
  } {tir.kind = "serial", tir.name = "i"}
  return
}
func.func @main(%arg0: tensor<6xf32> {relax.name = "x"}, %arg1: tensor<6xf32> {relax.name = "w"}) -> tensor<6xf32> {
  %0 = builtin.unrealized_conversion_cast %arg0, %arg1 : tensor<6xf32>, tensor<6xf32> to tuple<tensor<6xf32>, tensor<6xf32>>
  %1 = "relax.call_tir"(%0) {callee = @add, relax.dataflow = 0 : i64, relax.name = "a", relax.output, sizes = #relax.shape<[]>} : (tuple<tensor<6xf32>, tensor<6xf32>>) -> tensor<6xf32>
  return %1 : tensor<6xf32>
}
