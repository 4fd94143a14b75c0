// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Gemm} --split-input-file --expect-error | filecheck %s
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Pooling} --split-input-file --expect-error | filecheck %s --check-prefix=POOLING
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Transpose} --split-input-file --expect-error | filecheck %s --check-prefix=TRANSPOSE
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Winograd} --split-input-file --expect-error | filecheck %s --check-prefix=WINOGRAD

// An elementwise statement is not a reduction, and has no transposed input.
// CHECK: error: kernel `copy`: `Gemm` does not take it: its first statement is not a sum reduction
// POOLING: error: kernel `copy`: `Pooling` does not take it: its first statement is not a reduction from a constant
// TRANSPOSE: error: kernel `copy`: `Transpose` does not take it: it has no transposed input
// WINOGRAD: error: kernel `copy`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @copy(%x: memref<7x8xf32>, %o: memref<7x8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<7x8xf32>
    memref.store %v, %o[%i, %j] : memref<7x8xf32>
    gpu.yield
  }) {name = "copy", kinds = "SS", static_extents = array<i64: 7, 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A sum of 80 elements.
// CHECK: error: kernel `sum`: `Gemm` does not take it: its terms are not products
// POOLING: error: kernel `sum`: `Pooling` does not take it: its window has 80 taps, not 2 to 64
// TRANSPOSE: error: kernel `sum`: `Transpose` does not take it: its statement is a reduction
// WINOGRAD: error: kernel `sum`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @sum(%x: memref<7x80xf32>, %o: memref<7xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i] : memref<7xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<7x80xf32>
    %s = memref.load %o[%i] : memref<7xf32>
    %t = arith.addf %s, %v : f32
    memref.store %t, %o[%i] : memref<7xf32>
    gpu.yield
  }) {name = "sum", kinds = "SR", static_extents = array<i64: 7, 80>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A vector-matrix product has no M.
// CHECK: error: kernel `row`: `Gemm` does not take it: it has no M: all axes of the LHS are in the RHS
// POOLING: error: kernel `row`: `Pooling` does not take it: its result is not indexed by two or more parallel axes, each once
// TRANSPOSE: error: kernel `row`: `Transpose` does not take it: its statement is a reduction
// WINOGRAD: error: kernel `row`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @row(%x: memref<9xf32>, %y: memref<9x8xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i] : memref<8xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%j] : memref<9xf32>
    %w = memref.load %y[%j, %i] : memref<9x8xf32>
    %p = arith.mulf %v, %w : f32
    %s = memref.load %o[%i] : memref<8xf32>
    %t = arith.addf %s, %p : f32
    memref.store %t, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "row", kinds = "SR", static_extents = array<i64: 8, 9>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// All columns are in both operands, and there is no sliding window.
// CHECK: error: kernel `each`: `Gemm` does not take it: neither operand alone has N, the last axis of the result
// POOLING: error: kernel `each`: `Pooling` does not take it: it has no window that slides along the last axis but one
// TRANSPOSE: error: kernel `each`: `Transpose` does not take it: its statement is a reduction
// WINOGRAD: error: kernel `each`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @each(%x: memref<9x8xf32>, %y: memref<9x8xf32>, %o: memref<3x8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %j] : memref<3x8xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %v = memref.load %x[%k, %j] : memref<9x8xf32>
    %w = memref.load %y[%k, %j] : memref<9x8xf32>
    %p = arith.mulf %v, %w : f32
    %s = memref.load %o[%i, %j] : memref<3x8xf32>
    %t = arith.addf %s, %p : f32
    memref.store %t, %o[%i, %j] : memref<3x8xf32>
    gpu.yield
  }) {name = "each", kinds = "SSR", static_extents = array<i64: 3, 8, 9>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A sum of f16.
// CHECK: error: kernel `half`: `Gemm` does not take it: its accumulator is f16, not f32, f64 or i32
// POOLING: error: kernel `half`: `Pooling` does not take it: its window has 80 taps, not 2 to 64
// TRANSPOSE: error: kernel `half`: `Transpose` does not take it: its statement is a reduction
// WINOGRAD: error: kernel `half`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @half(%x: memref<3x80xf16>, %y: memref<80x8xf16>, %o: memref<3x8xf16>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f16
    memref.store %z, %o[%i, %j] : memref<3x8xf16>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %v = memref.load %x[%i, %k] : memref<3x80xf16>
    %w = memref.load %y[%k, %j] : memref<80x8xf16>
    %p = arith.mulf %v, %w : f16
    %s = memref.load %o[%i, %j] : memref<3x8xf16>
    %t = arith.addf %s, %p : f16
    memref.store %t, %o[%i, %j] : memref<3x8xf16>
    gpu.yield
  }) {name = "half", kinds = "SSR", static_extents = array<i64: 3, 8, 80>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A transpose of three rows is too narrow for a square tile.
// CHECK: error: kernel `narrow`: `Gemm` does not take it: its first statement is not a sum reduction
// POOLING: error: kernel `narrow`: `Pooling` does not take it: its first statement is not a reduction from a constant
// TRANSPOSE: error: kernel `narrow`: `Transpose` does not take it: a transposed axis has fewer than 4 elements
// WINOGRAD: error: kernel `narrow`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @narrow(%x: memref<8x3xf32>, %o: memref<3x8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%j, %i] : memref<8x3xf32>
    memref.store %v, %o[%i, %j] : memref<3x8xf32>
    gpu.yield
  }) {name = "narrow", kinds = "SS", static_extents = array<i64: 3, 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A transpose of bytes.
// CHECK: error: kernel `bytes`: `Gemm` does not take it: its first statement is not a sum reduction
// POOLING: error: kernel `bytes`: `Pooling` does not take it: its first statement is not a reduction from a constant
// TRANSPOSE: error: kernel `bytes`: `Transpose` does not take it: its elements do not all have one width of 32 bits or more
// WINOGRAD: error: kernel `bytes`: `Winograd` does not take it: it is not a convolution that `tir-use-winograd` has marked
func.func @bytes(%x: memref<8x9xi8>, %o: memref<9x8xi8>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%j, %i] : memref<8x9xi8>
    memref.store %v, %o[%i, %j] : memref<9x8xi8>
    gpu.yield
  }) {name = "bytes", kinds = "SS", static_extents = array<i64: 9, 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
