// RUN: relax-opt %s -p tir-lower-blocks --split-input-file | filecheck %s

// The start value is written where the reduce axis begins, under the block's predicate.
// CHECK-LABEL: func.func @sum
// CHECK-NOT:     tir.block
// CHECK:         scf.if %{{.*}} {
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %[[K:.*]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[FIRST]] {
// CHECK:             memref.store
// CHECK:           }
// CHECK-NEXT:      memref.load %arg0[%{{.*}}, %[[K]]]
func.func @sum(%x: memref<3x5xf32>, %o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  scf.for %i = %c0 to %c3 step %c1 {
    scf.for %k0 = %c0 to %c3 step %c1 {
      scf.for %k1 = %c0 to %c2 step %c1 {
        %t = arith.muli %k0, %c2 : index
        %k = arith.addi %t, %k1 : index
        %in = arith.cmpi slt, %k, %c5 : index
        scf.if %in {
          "tir.block"(%i, %k) ({
          ^bb0(%vi: index, %vk: index):
            %z = arith.constant 0.0 : f32
            memref.store %z, %o[%vi] : memref<3xf32>
            gpu.yield
          }, {
          ^bb0(%vi: index, %vk: index):
            %a = memref.load %x[%vi, %vk] : memref<3x5xf32>
            %b = memref.load %o[%vi] : memref<3xf32>
            %s = arith.addf %a, %b : f32
            memref.store %s, %o[%vi] : memref<3xf32>
            gpu.yield
          }) {name = "S", kinds = "SR", static_extents = array<i64: 3, 5>, operandSegmentSizes = array<i32: 0, 2>} : (index, index) -> ()
        } {tir.where}
      } {tir.kind = "serial"}
    } {tir.kind = "serial"}
  } {tir.kind = "parallel"}
  return
}

// -----

// A buffer of a block becomes one of the program, in the only memory that there is.
// CHECK-LABEL: func.func @cached
// CHECK-NEXT:    %[[B:.*]] = "tir.alloc_buffer"() {{.*}} -> memref<4xf32>
// CHECK:         scf.for
// CHECK:         memref.store %{{.*}}, %[[B]]
func.func @cached(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    "tir.block"(%i) ({}, {
    ^bb0(%vi: index):
      %b = "tir.alloc_buffer"() {shape = #relax.shape<["4"]>} : () -> memref<4xf32, "local">
      %a = memref.load %x[%vi] : memref<4xf32>
      %n = "tir.let"(%a) {name = "n"} : (f32) -> f32
      memref.store %n, %b[%vi] : memref<4xf32, "local">
      %c = memref.load %b[%vi] : memref<4xf32, "local">
      memref.store %c, %o[%vi] : memref<4xf32>
      gpu.yield
    }) {name = "o", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 1>} : (index) -> ()
  } {tir.kind = "serial"}
  return
}

// -----

// A program that nobody scheduled is left for `tir-to-linalg`.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    "tir.block"()
func.func @plain(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "o", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
