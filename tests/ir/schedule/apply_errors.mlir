// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=512} --split-input-file --expect-error | filecheck %s

// An unknown rule.
// CHECK: error: kernel `copy`: attribute `tir.config`: unknown rule `Row`: expected one of {{.*}}Did you mean `RowWise`?
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "Row"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The rule does not apply to the kernel.
// CHECK: error: kernel `copy`: attribute `tir.config`: `Gemm` does not take it: its first statement is not a sum reduction
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "Gemm{rows=2}"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An unknown parameter.
// CHECK: error: kernel `copy`: attribute `tir.config`: unknown choice `vector`: expected `vectors`, `chunk`. Did you mean `vectors`?
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "RowWise{vector=2}"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An invalid value.
// CHECK: error: kernel `copy`: attribute `tir.config`: `vectors`: expected one of 1, 2, 4, got 3
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "RowWise{vectors=3}"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A rule without parameters.
// CHECK: error: kernel `copy`: attribute `tir.config`: `Fallback` has no choices, got `Fallback{rows=1}`
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "Fallback{rows=1}"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Invalid syntax.
// CHECK: error: kernel `copy`: attribute `tir.config`: expected a configuration such as `Pooling{width=7}`, got `RowWise(vectors=2)`
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "RowWise(vectors=2)"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
