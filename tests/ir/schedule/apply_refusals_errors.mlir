// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Contraction} --split-input-file --expect-error | filecheck %s
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Windows} --split-input-file --expect-error | filecheck %s --check-prefix=WINDOWS
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Turned} --split-input-file --expect-error | filecheck %s --check-prefix=TURNED
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Winograd} --split-input-file --expect-error | filecheck %s --check-prefix=WINOGRAD

// A map sums nothing, and writes the neighbours that it reads.
// CHECK: error: kernel `copy`: `Contraction` does not take it: its first statement is no sum
// WINDOWS: error: kernel `copy`: `Windows` does not take it: its first statement is no sum that starts from a constant
// TURNED: error: kernel `copy`: `Turned` does not take it: it reads neighbours along the axis where it writes them
// WINOGRAD: error: kernel `copy`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
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

// A sum of 80 numbers.
// CHECK: error: kernel `sum`: `Contraction` does not take it: what it sums are no products
// WINDOWS: error: kernel `sum`: `Windows` does not take it: its sums have 80 terms, not 2 to 64
// TURNED: error: kernel `sum`: `Turned` does not take it: its statement is a sum
// WINOGRAD: error: kernel `sum`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
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

// A product of a vector and a matrix has no rows.
// CHECK: error: kernel `row`: `Contraction` does not take it: it has no rows, which the factor without columns would have
// WINDOWS: error: kernel `row`: `Windows` does not take it: its result is not indexed by two spatial axes or more, each once
// TURNED: error: kernel `row`: `Turned` does not take it: its statement is a sum
// WINOGRAD: error: kernel `row`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
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

// Every column has numbers of its own in both factors, and nothing slides.
// CHECK: error: kernel `each`: `Contraction` does not take it: neither factor alone has the columns, the last axis of the result
// WINDOWS: error: kernel `each`: `Windows` does not take it: it has no window that moves along the last axis but one
// TURNED: error: kernel `each`: `Turned` does not take it: its statement is a sum
// WINOGRAD: error: kernel `each`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
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
// CHECK: error: kernel `half`: `Contraction` does not take it: its sum is of f16, not of f32, f64 or i32
// WINDOWS: error: kernel `half`: `Windows` does not take it: its sums have 80 terms, not 2 to 64
// TURNED: error: kernel `half`: `Turned` does not take it: its statement is a sum
// WINOGRAD: error: kernel `half`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
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

// A transpose of three rows is too narrow for a square.
// CHECK: error: kernel `narrow`: `Contraction` does not take it: its first statement is no sum
// WINDOWS: error: kernel `narrow`: `Windows` does not take it: its first statement is no sum that starts from a constant
// TURNED: error: kernel `narrow`: `Turned` does not take it: a side of its tiles would have less than 4 points
// WINOGRAD: error: kernel `narrow`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
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
// CHECK: error: kernel `bytes`: `Contraction` does not take it: its first statement is no sum
// WINDOWS: error: kernel `bytes`: `Windows` does not take it: its first statement is no sum that starts from a constant
// TURNED: error: kernel `bytes`: `Turned` does not take it: its elements are not all of one width of 32 bits or more
// WINOGRAD: error: kernel `bytes`: `Winograd` does not take it: it is no convolution that `tir-use-winograd` has marked
func.func @bytes(%x: memref<8x9xi8>, %o: memref<9x8xi8>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%j, %i] : memref<8x9xi8>
    memref.store %v, %o[%i, %j] : memref<9x8xi8>
    gpu.yield
  }) {name = "bytes", kinds = "SS", static_extents = array<i64: 9, 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
