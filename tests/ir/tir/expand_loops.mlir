// RUN: relax-opt %s -p tir-expand-loops | filecheck %s
// RUN: relax-opt %s -p tir-expand-loops,tir-collapse-loops | filecheck %s --check-prefix=BACK

// A loop per axis is created around the block, with the former loop names.
// CHECK-LABEL: func.func @transpose
// CHECK:         %[[C2:.*]] = arith.constant 2 : index
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %[[C2]]
// CHECK:         scf.for %[[J:.*]] = %{{.*}} to %{{.*}}
// CHECK:         "tir.block"(%[[I]], %[[J]])
// CHECK:         } {tir.kind = "serial", tir.name = "j"}
// CHECK:       } {tir.kind = "serial", tir.name = "i"}

// And collapsed again.
// BACK-LABEL: func.func @transpose
// BACK-NEXT:    "tir.block"()
// BACK-NOT:     scf.for
func.func @transpose(%x: memref<3x2xf32>, %o: memref<2x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%j, %i] : memref<3x2xf32>
    memref.store %a, %o[%i, %j] : memref<2x3xf32>
    gpu.yield
  }) {name = "t", kinds = "SS", static_extents = array<i64: 2, 3>, tir.loop_names = ["i", "j"], operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// Blocks in branches and in other blocks get loops, too.
// BACK-LABEL: func.func @nested
// CHECK-LABEL: func.func @nested
// CHECK:         scf.if
// CHECK:           scf.for %[[I:.*]] = %{{.*}} to %{{.*}}
// CHECK:             "tir.block"(%[[I]])
// CHECK:             ^bb0(%[[V:.*]]: index):
// CHECK:               scf.for %[[J:.*]] = %{{.*}} to %{{.*}}
// CHECK:                 "tir.block"(%[[J]])
// CHECK:                 ^bb0(%[[W:.*]]: index):
// CHECK:                   memref.store %{{.*}}, %{{.*}}[%[[V]], %[[W]]]
func.func @nested(%o: memref<2x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c = arith.constant true
  scf.if %c {
    "tir.block"() ({}, {
    ^bb0(%i: index):
      "tir.block"() ({}, {
      ^bb0(%j: index):
        %a = arith.constant 0.0 : f32
        memref.store %a, %o[%i, %j] : memref<2x3xf32>
        gpu.yield
      }) {name = "inner", kinds = "S", static_extents = array<i64: 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
      gpu.yield
    }) {name = "outer", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  }
  return
}
