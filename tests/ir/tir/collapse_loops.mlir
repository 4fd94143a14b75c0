// RUN: relax-opt %s -p tir-collapse-loops --split-input-file | filecheck %s

// A perfect nest becomes the domain of its block; a loop per axis, in the order of the axes.
// CHECK-LABEL: func.func @sum
// CHECK-NOT:     scf.for
// CHECK:         "tir.block"()
// CHECK:         arith.addf
// CHECK:         kinds = "SR", name = "S"
// CHECK-SAME:    static_extents = array<i64: 3, 5>
func.func @sum(%x: memref<5x3xf32>, %o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  scf.for %k = %c0 to %c5 step %c1 {
    scf.for %i = %c0 to %c3 step %c1 {
      "tir.block"(%i, %k) ({
      ^bb0(%vi: index, %vk: index):
        %z = arith.constant 0.0 : f32
        memref.store %z, %o[%vi] : memref<3xf32>
        gpu.yield
      }, {
      ^bb0(%vi: index, %vk: index):
        %a = memref.load %x[%vk, %vi] : memref<5x3xf32>
        %b = memref.load %o[%vi] : memref<3xf32>
        %s = arith.addf %a, %b : f32
        memref.store %s, %o[%vi] : memref<3xf32>
        gpu.yield
      }) {name = "S", kinds = "SR", static_extents = array<i64: 3, 5>, operandSegmentSizes = array<i32: 0, 2>} : (index, index) -> ()
    } {tir.kind = "serial", tir.name = "i"}
  } {tir.kind = "serial", tir.name = "k"}
  return
}

// -----

// Dynamic sizes are computed before the block.
// CHECK-LABEL: func.func @twice
// CHECK-NOT:     scf.for
// CHECK:         %[[N:.*]] = arith.muli %arg2
// CHECK:         "tir.block"(%[[N]])
// CHECK:         static_extents = array<i64: -1>
func.func @twice(%x: memref<?xf32> {tir.shape = #relax.shape<["2*n"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["2*n"]>}, %n: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %m = arith.muli %n, %c2 : index
  scf.for %i = %c0 to %m step %c1 {
    %e = arith.muli %c2, %n : index
    "tir.block"(%e, %i) ({}, {
    ^bb0(%vi: index):
      %a = memref.load %x[%vi] : memref<?xf32>
      memref.store %a, %o[%vi] : memref<?xf32>
      gpu.yield
    }) {name = "o", kinds = "S", static_extents = array<i64: -1>, operandSegmentSizes = array<i32: 1, 1>} : (index, index) -> ()
  } {tir.kind = "serial", tir.name = "i"}
  return
}

// -----

// A loop split by a schedule stays, and so does the plain one next to it.
// CHECK-LABEL: func.func @split
// CHECK-COUNT-3: scf.for
func.func @split(%x: memref<6xf32>, %o: memref<6xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c6 step %c1 {
    "tir.block"(%i) ({}, {
    ^bb0(%vi: index):
      %a = memref.load %x[%vi] : memref<6xf32>
      memref.store %a, %o[%vi] : memref<6xf32>
      gpu.yield
    }) {name = "copy", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 1>} : (index) -> ()
  } {tir.kind = "serial", tir.name = "i"}
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %j = %c0 to %c3 step %c1 {
      %t = arith.muli %i, %c3 : index
      %u = arith.addi %t, %j : index
      "tir.block"(%u) ({}, {
      ^bb0(%vi: index):
        %a = memref.load %o[%vi] : memref<6xf32>
        %b = arith.negf %a : f32
        memref.store %b, %o[%vi] : memref<6xf32>
        gpu.yield
      }) {name = "neg", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 1>} : (index) -> ()
    } {tir.kind = "serial", tir.name = "j"}
  } {tir.kind = "serial", tir.name = "i"}
  return
}

// -----

// Where two points store the same element, their order decides: the loops stay.
// CHECK-LABEL: func.func @diagonal
// CHECK-COUNT-2: scf.for
func.func @diagonal(%x: memref<4x6xf32>, %o: memref<9xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      "tir.block"(%i, %j) ({}, {
      ^bb0(%vi: index, %vj: index):
        %a = memref.load %x[%vi, %vj] : memref<4x6xf32>
        %d = arith.addi %vi, %vj : index
        memref.store %a, %o[%d] : memref<9xf32>
        gpu.yield
      }) {name = "o", kinds = "SS", static_extents = array<i64: 4, 6>, operandSegmentSizes = array<i32: 0, 2>} : (index, index) -> ()
    } {tir.kind = "serial", tir.name = "j"}
  } {tir.kind = "serial", tir.name = "i"}
  return
}

// -----

// The last point of a reduction axis wins: the loops stay.
// CHECK-LABEL: func.func @last
// CHECK-COUNT-2: scf.for
func.func @last(%x: memref<4x6xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      "tir.block"(%i, %j) ({}, {
      ^bb0(%vi: index, %vj: index):
        %a = memref.load %x[%vi, %vj] : memref<4x6xf32>
        memref.store %a, %o[%vi] : memref<4xf32>
        gpu.yield
      }) {name = "o", kinds = "SR", static_extents = array<i64: 4, 6>, operandSegmentSizes = array<i32: 0, 2>} : (index, index) -> ()
    } {tir.kind = "serial", tir.name = "j"}
  } {tir.kind = "serial", tir.name = "i"}
  return
}

// -----

// Indices that determine the axes, as digits of a number and as tiles, store elements apart.
// CHECK-LABEL: func.func @tiles
// CHECK-NOT:     scf.for
// CHECK:         static_extents = array<i64: 8, 6, 5>
func.func @tiles(%x: memref<8x6x5xf32>, %o: memref<2x30x4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      scf.for %k = %c0 to %c5 step %c1 {
        "tir.block"(%i, %j, %k) ({}, {
        ^bb0(%vi: index, %vj: index, %vk: index):
          %a = memref.load %x[%vi, %vj, %vk] : memref<8x6x5xf32>
          %four = arith.constant 4 : index
          %five = arith.constant 5 : index
          %outer = arith.floordivsi %vi, %four : index
          %inner = arith.remui %vi, %four : index
          %row = arith.muli %vj, %five : index
          %middle = arith.addi %row, %vk : index
          memref.store %a, %o[%outer, %middle, %inner] : memref<2x30x4xf32>
          gpu.yield
        }) {name = "o", kinds = "SSS", static_extents = array<i64: 8, 6, 5>, operandSegmentSizes = array<i32: 0, 3>} : (index, index, index) -> ()
      } {tir.kind = "serial", tir.name = "k"}
    } {tir.kind = "serial", tir.name = "j"}
  } {tir.kind = "serial", tir.name = "i"}
  return
}
