// RUN: relax-opt %s -p tir-to-linalg --split-input-file | filecheck %s

// Dynamic sizes are operands of subviews and allocations.
// CHECK-LABEL: func.func @dynamic
// CHECK:         %[[T:.*]] = memref.alloc(%arg2) : memref<?xf32>
// CHECK:         %[[FROM:.*]] = memref.subview %arg0[3] [%arg2] [1] {{.*}} : memref<?xf32> to memref<?xf32, strided<[1], offset: 3>>
// CHECK:         linalg.generic {{.*}} ins(%[[FROM]] {{.*}} outs(%[[T]]
// CHECK:         linalg.generic {{.*}} ins(%[[T]] {{.*}} outs(%arg1
// CHECK-NOT:     "tir.
func.func @dynamic(%x: memref<?xf32> {tir.shape = #relax.shape<["s0 + 3"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"(%n) {shape = #relax.shape<["s0"]>} : (index) -> memref<?xf32>
  "tir.block"(%n) ({}, {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %j = arith.addi %i, %c3 : index
    %v = memref.load %x[%j] : memref<?xf32>
    memref.store %v, %t[%i] : memref<?xf32>
    gpu.yield
  }) {name = "rest", kinds = "S", static_extents = array<i64: -1>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  "tir.block"(%n) ({}, {
  ^bb0(%i: index):
    %v = memref.load %t[%i] : memref<?xf32>
    memref.store %v, %o[%i] : memref<?xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: -1>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  return
}
func.func private @elsewhere(memref<?xf32>) attributes {tir.prim_func}

// -----

// Windows over a dynamic size: the box that they reach is computed.
// CHECK-LABEL: func.func @dynamic_windows
// CHECK:         %[[TWICE:.*]] = arith.muli %arg2, %c2
// CHECK:         %[[LESS:.*]] = arith.addi %[[TWICE]], %c-2
// CHECK:         %[[BOX:.*]] = arith.addi %c3, %[[LESS]]
// CHECK:         memref.subview %arg0[0] [%[[BOX]]] [1]
// CHECK:         memref.alloca() {{.*}} : memref<3xi8>
func.func @dynamic_windows(%x: memref<?xf32> {tir.shape = #relax.shape<["2*s0 + 1"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"(%n) ({
  ^bb0(%i: index, %r: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i] : memref<?xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %r: index):
    %c2 = arith.constant 2 : index
    %j = arith.muli %i, %c2 : index
    %k = arith.addi %j, %r : index
    %v = memref.load %x[%k] : memref<?xf32>
    %a = memref.load %o[%i] : memref<?xf32>
    %s = arith.addf %a, %v : f32
    memref.store %s, %o[%i] : memref<?xf32>
    gpu.yield
  }) {name = "windows", kinds = "SR", static_extents = array<i64: -1, 3>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  return
}

// -----

// A dimension of constant index is dropped from the subview; the others keep their strides.
// CHECK-LABEL: func.func @column
// CHECK:         %[[C:.*]] = memref.subview %arg0[0, 2] [4, 1] [1, 1] {{.*}} : memref<4x5xf32> to memref<4xf32, strided<[5], offset: 2>>
// CHECK:         %[[R:.*]] = memref.subview %arg1[1, 0] [1, 4] [1, 1] {{.*}} : memref<3x?xf32> to memref<4xf32, strided<[1], offset: ?>>
// CHECK:         linalg.generic {{.*}} ins(%[[C]], %[[R]]
func.func @column(%x: memref<4x5xf32>, %y: memref<3x?xf32> {tir.shape = #relax.shape<["3", "s0"]>}, %o: memref<4xf32>, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %a = memref.load %x[%i, %c2] : memref<4x5xf32>
    %b = memref.load %y[%c1, %i] : memref<3x?xf32>
    %v = arith.addf %a, %b : f32
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "column", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A row of dynamic length gives dynamic strides, except for the innermost dimension.
// CHECK-LABEL: func.func @rows
// CHECK:         memref.subview %arg0[0, 1, 0] [2, 1, 5] [1, 1, 1] {{.*}} : memref<2x3x?xf32> to memref<2x5xf32, strided<[?, 1], offset: ?>>
func.func @rows(%x: memref<2x3x?xf32> {tir.shape = #relax.shape<["2", "3", "s0"]>}, %o: memref<2x5xf32>, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %c1 = arith.constant 1 : index
    %a = memref.load %x[%i, %c1, %j] : memref<2x3x?xf32>
    memref.store %a, %o[%i, %j] : memref<2x5xf32>
    gpu.yield
  }) {name = "rows", kinds = "SS", static_extents = array<i64: 2, 5>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Two loads of one element share an operand.
// CHECK-LABEL: func.func @square
// CHECK:         linalg.generic {{.*}} ins(%arg0 : memref<4xf32>) outs(%arg1
// CHECK-NEXT:    ^bb0(%[[V:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[S:.*]] = arith.mulf %[[V]], %[[V]]
// CHECK-NEXT:      linalg.yield %[[S]]
func.func @square(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %b = memref.load %x[%i] : memref<4xf32>
    %s = arith.mulf %a, %b : f32
    memref.store %s, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "square", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Two reductions in one block: each accumulates in its own output, and index arithmetic is erased.
// CHECK-LABEL: func.func @two_sums
// CHECK:         linalg.generic {{.*}} outs(%arg1, %arg2
// CHECK:         linalg.generic {{.*}} ins(%arg0 {{.*}} outs(%arg1, %arg2
// CHECK-NEXT:    ^bb0(%[[V:.*]]: f32, %[[O:.*]]: f32, %[[P:.*]]: f32):
// CHECK-NEXT:      %[[A:.*]] = arith.addf %[[O]], %[[V]]
// CHECK-NEXT:      %[[B:.*]] = arith.mulf %[[P]], %[[V]]
// CHECK-NEXT:      linalg.yield %[[A]], %[[B]]
func.func @two_sums(%x: memref<3x5xf32>, %o: memref<3xf32>, %p: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 2 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %k: index):
    %z = arith.constant 0.0 : f32
    %e = arith.constant 1.0 : f32
    memref.store %z, %o[%i] : memref<3xf32>
    memref.store %e, %p[%i] : memref<3xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %k: index):
    %c0 = arith.constant 0 : index
    %j = arith.addi %k, %c0 : index
    %v = memref.load %x[%i, %j] : memref<3x5xf32>
    %a = memref.load %o[%i] : memref<3xf32>
    %b = memref.load %p[%i] : memref<3xf32>
    %s = arith.addf %a, %v : f32
    %t = arith.mulf %b, %v : f32
    memref.store %s, %o[%i] : memref<3xf32>
    memref.store %t, %p[%i] : memref<3xf32>
    gpu.yield
  }) {name = "sums", kinds = "SR", static_extents = array<i64: 3, 5>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A reversed index has no subview: the load stays in the body.
// CHECK-LABEL: func.func @reverse
// CHECK:         linalg.generic {{.*}} outs(%arg1
// CHECK:           memref.load %arg0
func.func @reverse(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %j = arith.subi %c3, %i : index
    %v = memref.load %x[%j] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "reverse", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A branch is copied with its regions.
// CHECK-LABEL: func.func @branch
// CHECK:         linalg.generic
// CHECK:           %[[I:.*]] = linalg.index 0
// CHECK:           scf.if
// CHECK-NEXT:        memref.load %arg0[%[[I]]]
func.func @branch(%x: memref<4xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c4 = arith.constant 4 : index
    %z = arith.constant 0.0 : f32
    %inside = arith.cmpi ult, %i, %c4 : index
    %v = scf.if %inside -> f32 {
      %r = memref.load %x[%i] : memref<4xf32>
      scf.yield %r : f32
    } else {
      scf.yield %z : f32
    }
    memref.store %v, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "branch", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Size arithmetic is hoisted to the top, where every statement can use it; other arithmetic stays.
// CHECK-LABEL: func.func @hoist
// CHECK-NEXT:    %[[C2:.*]] = arith.constant 2 : index
// CHECK-NEXT:    %[[TWICE:.*]] = arith.muli %arg2, %[[C2]]
// CHECK-NEXT:    linalg.generic
// CHECK:         %[[READ:.*]] = memref.load %arg0
// CHECK-NEXT:    %[[AT:.*]] = arith.index_cast %[[READ]]
// CHECK-NEXT:    arith.addi %[[TWICE]], %[[AT]]
func.func @hoist(%x: memref<4xi64>, %o: memref<4xi64>, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xi64>
    memref.store %v, %o[%i] : memref<4xi64>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  %c2 = arith.constant 2 : index
  %twice = arith.muli %n, %c2 : index
  %read = memref.load %x[%c2] : memref<4xi64>
  %at = arith.index_cast %read : i64 to index
  %sum = arith.addi %twice, %at : index
  return
}
