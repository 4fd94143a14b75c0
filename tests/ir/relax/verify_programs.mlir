// RUN: relax-opt %s -p relax-verify --no-verify --split-input-file --expect-error | filecheck %s

// The last point of the domain reads past the end of the buffer.
// CHECK: error: invalid module: {{.*}}`memref.load`: index 0: expected 0 to 7, got 1 to 8
func.func @neighbours(%x: memref<8xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c1 = arith.constant 1 : index
    %j = arith.addi %i, %c1 : index
    %a = memref.load %x[%j] : memref<8xf32>
    memref.store %a, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "next", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The first point of the domain writes before its start.
// CHECK: error: invalid module: {{.*}}`memref.store`: index 1: expected 0 to 4, got -2 to 2
func.func @before(%o: memref<3x5xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %c2 = arith.constant 2 : index
    %k = arith.subi %j, %c2 : index
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %k] : memref<3x5xf32>
    gpu.yield
  }) {name = "before", kinds = "SS", static_extents = array<i64: 3, 5>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// So does a statement without axes.
// CHECK: error: invalid module: {{.*}}`memref.store`: index 0: expected 0 to 2, got 3 to 3
func.func @behind(%o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0:
    %c3 = arith.constant 3 : index
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%c3] : memref<3xf32>
    gpu.yield
  }) {name = "behind", kinds = "", static_extents = array<i64>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An input is read-only, in a branch, too.
// CHECK: error: invalid module: {{.*}}`memref.store`: store to an input: inputs are read-only
func.func @branch(%x: memref<8xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %z = arith.constant 0.0 : f32
    %c4 = arith.constant 4 : index
    %inside = arith.cmpi ult, %i, %c4 : index
    scf.if %inside {
      memref.store %z, %x[%i] : memref<8xf32>
    }
    gpu.yield
  }) {name = "zero", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An input is read-only.
// CHECK: error: invalid module: {{.*}}`memref.store`: store to an input: inputs are read-only
func.func @overwrite(%x: memref<8xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %x[%i] : memref<8xf32>
    gpu.yield
  }) {name = "zero", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The initialization is the same for all points of a reduction.
// CHECK: error: invalid module: {{.*}}`tir.block`: init must not depend on a reduction axis
func.func @start(%o: memref<8xi64>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %k: index):
    %z = arith.index_cast %k : index to i64
    memref.store %z, %o[%i] : memref<8xi64>
    gpu.yield
  }, {
  ^bb0(%i: index, %k: index):
    gpu.yield
  }) {name = "sum", kinds = "SR", static_extents = array<i64: 8, 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Kinds, extents and axes must match.
// CHECK: error: invalid module: {{.*}}`tir.block`: `static_extents`: expected 2, each a size or -1, got [8]
func.func @rank(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %k: index):
    gpu.yield
  }) {name = "rank", kinds = "SS", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An axis is spatial or a reduction axis.
// CHECK: error: invalid module: {{.*}}`tir.block`: `kinds`: expected letters S, R, O and C, got `SX`
func.func @letters(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %k: index):
    gpu.yield
  }) {name = "letters", kinds = "SX", static_extents = array<i64: 8, 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A dynamic extent is an operand.
// CHECK: error: invalid module: {{.*}}`tir.block`: expected 1 extents, one for each -1, got 0
func.func @extents(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %k: index):
    gpu.yield
  }) {name = "extents", kinds = "SS", static_extents = array<i64: 8, -1>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The body has an argument per axis.
// CHECK: error: invalid module: {{.*}}`tir.block`: expected 2 axes of type index, got (index)
func.func @axes(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    gpu.yield
  }) {name = "axes", kinds = "SS", static_extents = array<i64: 8, 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A bound block has a value per axis.
// CHECK: error: invalid module: {{.*}}`tir.block`: expected no bindings or 2, got 1
func.func @bindings(%o: memref<8xf32>, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"(%s) ({}, {
  ^bb0(%i: index, %k: index):
    gpu.yield
  }) {name = "bindings", kinds = "SS", static_extents = array<i64: 8, 2>, operandSegmentSizes = array<i32: 0, 1>} : (index) -> ()
  return
}

// -----

// A block needs a body.
// CHECK: error: invalid module: {{.*}}`tir.block`: expected one body block, and at most one init block
func.func @empty(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {}) {name = "empty", kinds = "", static_extents = array<i64>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A buffer has a shape attribute.
// CHECK: error: invalid module: {{.*}}`tir.alloc_buffer`: `shape`: expected the shape of `memref<8xf32>`, got [9]
func.func @shape(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"() {shape = #relax.shape<["9"]>} : () -> memref<8xf32>
  return
}

// -----

// A buffer of dynamic shape has size operands.
// CHECK: error: invalid module: {{.*}}`tir.alloc_buffer`: expected 1 sizes, got 0
func.func @sizes(%o: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"() {shape = #relax.shape<["s0"]>} : () -> memref<?xf32>
  return
}
