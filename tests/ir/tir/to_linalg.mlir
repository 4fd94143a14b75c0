// RUN: relax-opt %s -p tir-to-linalg --split-input-file | filecheck %s

// A pooling window: no operand carries the window's axis, so an operand of its size does.
// CHECK-DAG:   #[[READ:.*]] = affine_map<(d0, d1) -> (d0 * 2 + d1)>
// CHECK-LABEL: func.func @pool
// CHECK:         %[[SIZE:.*]] = memref.alloca() {{{.*}}} : memref<3xi8>
// CHECK:         linalg.generic {indexing_maps = [#[[READ]], #{{.*}}, #{{.*}}], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME:    ins(%arg0, %[[SIZE]] : memref<17xf32>, memref<3xi8>)
// CHECK-NOT:     linalg.index
// CHECK-NOT:     tir.block
func.func @pool(%x: memref<17xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %r: index):
    %z = arith.constant 0xFF800000 : f32
    memref.store %z, %o[%i] : memref<8xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %r: index):
    %c2 = arith.constant 2 : index
    %j = arith.muli %i, %c2 : index
    %k = arith.addi %j, %r : index
    %v = memref.load %x[%k] : memref<17xf32>
    %a = memref.load %o[%i] : memref<8xf32>
    %m = arith.maximumf %a, %v : f32
    memref.store %m, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "pool", kinds = "SR", static_extents = array<i64: 8, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// x[i] + x[i + 1]: two subviews of one buffer.
// CHECK-LABEL: func.func @neighbours
// CHECK:         %[[A:.*]] = memref.subview %arg0[0] [8] [1]
// CHECK:         %[[B:.*]] = memref.subview %arg0[1] [8] [1]
// CHECK:         linalg.generic {{.*}} ins(%[[A]], %[[B]]
func.func @neighbours(%x: memref<9xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c1 = arith.constant 1 : index
    %j = arith.addi %i, %c1 : index
    %a = memref.load %x[%i] : memref<9xf32>
    %b = memref.load %x[%j] : memref<9xf32>
    %s = arith.addf %a, %b : f32
    memref.store %s, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "neighbours", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Concatenation: each input is stored into its slice.
// CHECK-LABEL: func.func @concat
// CHECK:         %[[LOW:.*]] = memref.subview %arg2[0, 0] [2, 3] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%arg0 {{.*}} outs(%[[LOW]]
// CHECK:         %[[HIGH:.*]] = memref.subview %arg2[0, 3] [2, 5] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%arg1 {{.*}} outs(%[[HIGH]]
func.func @concat(%x: memref<2x3xf32>, %y: memref<2x5xf32>, %o: memref<2x8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<2x3xf32>
    memref.store %a, %o[%i, %j] : memref<2x8xf32>
    gpu.yield
  }) {name = "first", kinds = "SS", static_extents = array<i64: 2, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %c3 = arith.constant 3 : index
    %k = arith.addi %j, %c3 : index
    %a = memref.load %y[%i, %j] : memref<2x5xf32>
    memref.store %a, %o[%i, %k] : memref<2x8xf32>
    gpu.yield
  }) {name = "second", kinds = "SS", static_extents = array<i64: 2, 5>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Stores at a symbolic offset; a reduction there stays loops.
// CHECK-LABEL: func.func @open_concat
// CHECK:         %[[BEGIN:.*]] = arith.addi %arg3, %{{.*}} : index
// CHECK:         %[[LOW:.*]] = memref.subview %arg2[0, 0] [2, %arg3] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%arg0 {{.*}} outs(%[[LOW]]
// CHECK:         %[[HIGH:.*]] = memref.subview %arg2[0, %[[BEGIN]]] [2, 5] [1, 1] {{.*}} to memref<2x5xf32, strided<[?, 1], offset: ?>>
// CHECK:         linalg.generic {{.*}} ins(%arg1 {{.*}} outs(%[[HIGH]]
// CHECK:         scf.for
func.func @open_concat(%x: memref<2x?xf32> {tir.shape = #relax.shape<["2", "s"]>}, %y: memref<2x5xf32>, %o: memref<2x?xf32> {tir.shape = #relax.shape<["2", "s + 7"]>}, %s: index {tir.symbol = "s"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"(%s) ({
  }, {
  ^bb0(%i: index, %j: index):
    %0 = memref.load %x[%i, %j] : memref<2x?xf32>
    memref.store %0, %o[%i, %j] : memref<2x?xf32>
    gpu.yield
  }) {kinds = "SS", name = "low", operandSegmentSizes = array<i32: 1, 0>, static_extents = array<i64: 2, -1>} : (index) -> ()
  %c2 = arith.constant 2 : index
  %behind = arith.addi %s, %c2 : index
  "tir.block"() ({
  }, {
  ^bb0(%i: index, %j: index):
    %0 = memref.load %y[%i, %j] : memref<2x5xf32>
    %1 = arith.addi %behind, %j : index
    memref.store %0, %o[%i, %1] : memref<2x?xf32>
    gpu.yield
  }) {kinds = "SS", name = "high", operandSegmentSizes = array<i32: 0, 0>, static_extents = array<i64: 2, 5>} : () -> ()
  "tir.block"() ({
  }, {
  ^bb0(%i: index, %j: index):
    %0 = memref.load %y[%i, %j] : memref<2x5xf32>
    %1 = memref.load %o[%i, %s] : memref<2x?xf32>
    %2 = arith.addf %0, %1 : f32
    memref.store %2, %o[%i, %s] : memref<2x?xf32>
    gpu.yield
  }) {kinds = "SR", name = "total", operandSegmentSizes = array<i32: 0, 0>, static_extents = array<i64: 2, 5>} : () -> ()
  return
}

// -----

// A reshape divides its index: floordiv and mod of one axis are indexing maps.
// CHECK:       #[[PARTS:.*]] = affine_map<(d0) -> (d0 floordiv 3, d0 mod 3)>
// CHECK-LABEL: func.func @reshape
// CHECK:         linalg.generic {indexing_maps = [#[[PARTS]], #{{.*}}]{{.*}} ins(%arg0 {{.*}} outs(%arg1
// CHECK-NEXT:    ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      linalg.yield %[[IN]]
func.func @reshape(%x: memref<2x3xf32>, %o: memref<6xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %q = arith.divui %i, %c3 : index
    %r = arith.remui %i, %c3 : index
    %a = memref.load %x[%q, %r] : memref<2x3xf32>
    memref.store %a, %o[%i] : memref<6xf32>
    gpu.yield
  }) {name = "reshape", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The last tile need not be full, as in zero-padded panels.
// CHECK-LABEL: func.func @filled_up
// CHECK:         linalg.generic {{.*}} ins(%arg0 : memref<2x4xf32>)
// CHECK-NOT:     memref.load
func.func @filled_up(%x: memref<2x4xf32>, %o: memref<6xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c4 = arith.constant 4 : index
    %q = arith.divui %i, %c4 : index
    %r = arith.remui %i, %c4 : index
    %a = memref.load %x[%q, %r] : memref<2x4xf32>
    memref.store %a, %o[%i] : memref<6xf32>
    gpu.yield
  }) {name = "unpack", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Tiled indices of a part of a buffer, or of a reduction, stay in the body as computed indices.
// CHECK-LABEL: func.func @some_blocks
// CHECK:         linalg.generic {{.*}} outs(%arg1
// CHECK:           %[[I:.*]] = linalg.index 0
// CHECK:           %[[Q:.*]] = arith.divui %[[I]]
// CHECK:           %[[R:.*]] = arith.remui %[[I]]
// CHECK:           memref.load %arg0[%[[Q]], %[[R]]]
// CHECK-LABEL: func.func @shifted
// CHECK:         linalg.generic {{.*}} outs(%arg1
// CHECK:           %[[J:.*]] = arith.addi
// CHECK:           arith.divui %[[J]]
// CHECK:           memref.load %arg0
func.func @some_blocks(%x: memref<3x3xf32>, %o: memref<6xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %q = arith.divui %i, %c3 : index
    %r = arith.remui %i, %c3 : index
    %a = memref.load %x[%q, %r] : memref<3x3xf32>
    memref.store %a, %o[%i] : memref<6xf32>
    gpu.yield
  }) {name = "first", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @shifted(%x: memref<3x3xf32>, %o: memref<6xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %j = arith.addi %i, %c1 : index
    %q = arith.divui %j, %c3 : index
    %r = arith.remui %j, %c3 : index
    %a = memref.load %x[%q, %r] : memref<3x3xf32>
    memref.store %a, %o[%i] : memref<6xf32>
    gpu.yield
  }) {name = "shifted", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Nor is the number of tiles of a dynamic axis known.
// CHECK-LABEL: func.func @open_blocks
// CHECK:         linalg.generic {{.*}} outs(%arg1
// CHECK:           arith.divui
// CHECK:           memref.load %arg0
func.func @open_blocks(%x: memref<?x3xf32> {tir.shape = #relax.shape<["s0", "3"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["3*s0"]>}, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %k3 = arith.constant 3 : index
  %n = arith.muli %s, %k3 : index
  "tir.block"(%n) ({}, {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %q = arith.divui %i, %c3 : index
    %r = arith.remui %i, %c3 : index
    %a = memref.load %x[%q, %r] : memref<?x3xf32>
    memref.store %a, %o[%i] : memref<?xf32>
    gpu.yield
  }) {name = "flat", kinds = "S", static_extents = array<i64: -1>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  return
}

// -----

// A dynamic stride is not affine.
// CHECK-LABEL: func.func @dynamic_stride
// CHECK:         linalg.generic
// CHECK:           %[[J:.*]] = arith.muli
// CHECK:           memref.load %arg0[%[[J]]]
func.func @dynamic_stride(%x: memref<?xf32> {tir.shape = #relax.shape<["4*s0"]>}, %o: memref<4xf32> {tir.shape = #relax.shape<["4"]>}, %s: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %j = arith.muli %i, %s : index
    %a = memref.load %x[%j] : memref<?xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "strided", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A gather: the index is an operand, the gathered element a load in the body.
// CHECK-LABEL: func.func @gather
// CHECK:         linalg.generic {{.*}} ins(%arg1
// CHECK:         ^bb0(%[[AT:.*]]: i64, %{{.*}}: f32):
// CHECK:           %[[PLACE:.*]] = arith.index_cast %[[AT]]
// CHECK:           memref.load %arg0[%[[PLACE]]]
func.func @gather(%x: memref<9xf32>, %at: memref<4xi64>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %at[%i] : memref<4xi64>
    %j = arith.index_cast %a : i64 to index
    %v = memref.load %x[%j] : memref<9xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "gather", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A scatter stores at a non-affine index: loops.
// CHECK-LABEL: func.func @scatter
// CHECK-NOT:     linalg.generic
// CHECK:         scf.for
// CHECK:           memref.store %{{.*}}, %arg2[%{{.*}}]
func.func @scatter(%x: memref<4xf32>, %at: memref<4xi64>, %o: memref<9xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %at[%i] : memref<4xi64>
    %j = arith.index_cast %a : i64 to index
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%j] : memref<9xf32>
    gpu.yield
  }) {name = "scatter", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An empty reduction leaves its initial value; an empty result leaves nothing.
// CHECK-LABEL: func.func @empty_sum
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel"]} outs(%arg1
// CHECK-NOT:     linalg.generic
// CHECK:         return
func.func @empty_sum(%x: memref<3x0xf32>, %o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i] : memref<3xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %k: index):
    %v = memref.load %x[%i, %k] : memref<3x0xf32>
    %a = memref.load %o[%i] : memref<3xf32>
    %s = arith.addf %a, %v : f32
    memref.store %s, %o[%i] : memref<3xf32>
    gpu.yield
  }) {name = "sum", kinds = "SR", static_extents = array<i64: 3, 0>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
