// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=512} --split-input-file | filecheck %s
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=128} --split-input-file | filecheck %s --check-prefix=NARROW
// RUN: relax-opt %s -p "tir-to-linalg,schedule-apply{vector-bits=512 int8-dot=true}" --split-input-file | filecheck %s --check-prefix=DOTS
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{only=Fallback} --split-input-file | filecheck %s --check-prefix=ONLY

// An elementwise kernel on whole buffers: vectors, then a masked remainder.
// CHECK-LABEL: func.func @relu
// CHECK-SAME:    tir.rule = "RowWise"
// CHECK-NOT:     linalg.generic
// CHECK:         vector.load %arg0{{.*}} vector<16xf32>
// CHECK:         vector.create_mask
// CHECK:         vector.maskedload %arg0
// ONLY-LABEL:   func.func @relu
// ONLY-SAME:      tir.rule = "Fallback"
// ONLY-NOT:     tir.rule = "RowWise"
// ONLY-NOT:     tir.rule = "Gemm"
// NARROW-LABEL: func.func @relu
// NARROW:         vector.load %arg0{{.*}} vector<4xf32>
func.func @relu(%x: memref<7x3xf32>, %o: memref<7x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    %v = memref.load %x[%i, %j] : memref<7x3xf32>
    %m = arith.maximumf %v, %z : f32
    memref.store %m, %o[%i, %j] : memref<7x3xf32>
    gpu.yield
  }) {name = "relu", kinds = "SS", static_extents = array<i64: 7, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An integer matmul of bytes, which are extended as they are loaded.
// CHECK-LABEL: func.func @bytes
// CHECK-SAME:    tir.rule = "Gemm"
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           memref.load {{.*}} : memref<128xi8>
// CHECK-NEXT:      arith.extui {{.*}} : i8 to i32
// CHECK:           arith.muli {{.*}} vector<16xi32>
// CHECK-NEXT:      arith.addi {{.*}} vector<16xi32>
// CHECK:           scf.yield
// With `vpdpbusd`, four products are summed per instruction: four bytes of a row, broadcast to
// every lane, times four interleaved rows of columns.
// DOTS-LABEL:  func.func @bytes
// DOTS:            vector.shuffle {{.*}} vector<16xi8>
// DOTS:            %[[COLUMNS:.+]] = vector.shuffle {{.*}} vector<32xi8>
// DOTS:            vector.load {{.*}} : memref<128xi8>, vector<4xi8>
// DOTS:            %[[ROW:.+]] = vector.bitcast {{.*}} vector<16xi32> to vector<64xi8>
// DOTS:            llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %[[ROW]], %[[COLUMNS]])
func.func @bytes(%x: memref<16x8xi8>, %w: memref<8x32xi8>, %o: memref<16x32xi32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0 : i32
    memref.store %z, %o[%i, %j] : memref<16x32xi32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %a = memref.load %x[%i, %k] : memref<16x8xi8>
    %b = memref.load %w[%k, %j] : memref<8x32xi8>
    %c = arith.extui %a : i8 to i32
    %d = arith.extsi %b : i8 to i32
    %p = arith.muli %c, %d : i32
    %s = memref.load %o[%i, %j] : memref<16x32xi32>
    %n = arith.addi %s, %p : i32
    memref.store %n, %o[%i, %j] : memref<16x32xi32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: 16, 32, 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A matmul and its epilogue: accumulators over K, elementwise on them, one store.
// CHECK-LABEL: func.func @dense
// CHECK-SAME:    tir.rule = "Gemm"
// CHECK-NOT:     linalg.generic
// CHECK-NOT:     memref.alloc() : memref<16x32xf32>
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           vector.fma
// CHECK:           scf.yield
// CHECK:         arith.maximumf {{.*}} vector<16xf32>
// CHECK-NEXT:    vector.store {{.*}}, %arg2
// CHECK-NOT:     memref.alloc() : memref<16x32xf32>
// CHECK:         return
func.func @dense(%x: memref<16x8xf32>, %w: memref<8x32xf32>, %o: memref<16x32xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"() {shape = #relax.shape<["16", "32"]>} : () -> memref<16x32xf32>
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %t[%i, %j] : memref<16x32xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %a = memref.load %x[%i, %k] : memref<16x8xf32>
    %b = memref.load %w[%k, %j] : memref<8x32xf32>
    %p = arith.mulf %a, %b : f32
    %s = memref.load %t[%i, %j] : memref<16x32xf32>
    %n = arith.addf %s, %p : f32
    memref.store %n, %t[%i, %j] : memref<16x32xf32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: 16, 32, 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    %v = memref.load %t[%i, %j] : memref<16x32xf32>
    %m = arith.maximumf %v, %z : f32
    memref.store %m, %o[%i, %j] : memref<16x32xf32>
    gpu.yield
  }) {name = "relu", kinds = "SS", static_extents = array<i64: 16, 32>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Prepacked columns in panels as wide as a tile are loaded in place, in whole vectors, including
// the padding of the last panel. Nothing is copied; only the store is masked.
// CHECK-LABEL: func.func @blocks
// CHECK-SAME:    tir.rule = "Gemm"
// CHECK-NOT:     memref.alloc
// CHECK-COUNT-3: vector.load {{.*}} : memref<480xf32>, vector<16xf32>
// CHECK:         vector.fma
// CHECK-NOT:     vector.maskedload
// CHECK:         vector.maskedstore %arg2
// CHECK:         return
// NARROW-LABEL: func.func @blocks
// NARROW-NOT:     memref.alloc
// NARROW-COUNT-12: vector.load {{.*}} : memref<480xf32>, vector<4xf32>
func.func @blocks(%x: memref<64x5xf32>, %w: memref<2x5x48xf32>, %o: memref<64x70xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %j] : memref<64x70xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %c48 = arith.constant 48 : index
    %q = arith.divui %j, %c48 : index
    %r = arith.remui %j, %c48 : index
    %a = memref.load %x[%i, %k] : memref<64x5xf32>
    %b = memref.load %w[%q, %k, %r] : memref<2x5x48xf32>
    %p = arith.mulf %a, %b : f32
    %s = memref.load %o[%i, %j] : memref<64x70xf32>
    %n = arith.addf %s, %p : f32
    memref.store %n, %o[%i, %j] : memref<64x70xf32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: 64, 70, 5>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Existing loops are one tile of the fallback; size arithmetic stays outside.
// CHECK-LABEL: func.func @scatter
// CHECK-SAME:    tir.rule = "Fallback"
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %c1{{.*}} step
// CHECK:           scf.for
// CHECK:             memref.store %{{.*}}, %arg2[%{{.*}}]
// CHECK:         {tir.grain = 1 : i64, tir.kind = "parallel"}
// CHECK-NEXT:    return
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

// A kernel with loops keeps them; external functions, and those that are no tensor programs, get
// none.
// CHECK-LABEL: func.func @scheduled
// CHECK-SAME:    tir.rule = "Mine"
// CHECK-NEXT:    return
// CHECK-LABEL: func.func private @elsewhere(memref<4xf32>) attributes {tir.prim_func}
// CHECK-LABEL: func.func @plain(
// CHECK-SAME:    %arg0: memref<4xf32>) {
// CHECK-NEXT:    return
func.func @scheduled(%o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.rule = "Mine"} {
  return
}
func.func private @elsewhere(memref<4xf32>) attributes {tir.prim_func}
func.func @plain(%o: memref<4xf32>) {
  return
}

// -----

// Maximum of contiguous integers, signed and unsigned, in lanes that are combined at the end;
// unused lanes hold the identity.
// CHECK-LABEL: func.func @largest
// CHECK-SAME:    tir.rule = "RowWise"
// CHECK:         %[[LOWEST:.*]] = vector.broadcast %c-128{{.*}} to vector<16xi8>
// CHECK:         iter_args(%{{.*}} = %[[LOWEST]])
// CHECK:         arith.maxsi {{.*}} : vector<16xi8>
// CHECK:         vector.reduction <maxsi>
// CHECK:         %[[HIGHEST:.*]] = vector.broadcast %c-1_{{.*}} to vector<16xi8>
// CHECK:         iter_args(%{{.*}} = %[[HIGHEST]])
// CHECK:         arith.minui {{.*}} : vector<16xi8>
// CHECK:         vector.reduction <minui>
func.func @largest(%x: memref<3x71xi8>, %o: memref<3xi8>, %p: memref<3xi8>) attributes {tir.prim_func, tir.num_outputs = 2 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %s = arith.constant -128 : i8
    memref.store %s, %o[%i] : memref<3xi8>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<3x71xi8>
    %b = memref.load %o[%i] : memref<3xi8>
    %m = arith.maxsi %b, %v : i8
    memref.store %m, %o[%i] : memref<3xi8>
    gpu.yield
  }) {name = "max", kinds = "SR", static_extents = array<i64: 3, 71>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %s = arith.constant -1 : i8
    memref.store %s, %p[%i] : memref<3xi8>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<3x71xi8>
    %b = memref.load %p[%i] : memref<3xi8>
    %m = arith.minui %b, %v : i8
    memref.store %m, %p[%i] : memref<3xi8>
    gpu.yield
  }) {name = "min", kinds = "SR", static_extents = array<i64: 3, 71>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Booleans, stored as bytes and computed on as one bit, are combined in lanes, too: with the
// identity of the bit, not of the byte.
// CHECK-LABEL: func.func @all_true
// CHECK:         %[[TRUE:.*]] = vector.broadcast %c1_i8{{.*}} to vector<16xi8>
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %[[TRUE]])
// CHECK:         arith.andi {{.*}} : vector<16xi1>
// CHECK:         vector.reduction <and>, %{{.*}} : vector<16xi8> into i8
func.func @all_true(%x: memref<3x71xi8>, %o: memref<3xi8>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %s = arith.constant 1 : i8
    memref.store %s, %o[%i] : memref<3xi8>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0 : i8
    %v = memref.load %x[%i, %j] : memref<3x71xi8>
    %vt = arith.cmpi ne, %v, %z : i8
    %b = memref.load %o[%i] : memref<3xi8>
    %bt = arith.cmpi ne, %b, %z : i8
    %m = arith.andi %bt, %vt : i1
    %mb = arith.extui %m : i1 to i8
    memref.store %mb, %o[%i] : memref<3xi8>
    gpu.yield
  }) {name = "all", kinds = "SR", static_extents = array<i64: 3, 71>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A combiner that reads the accumulator other than as one bit is applied element by element.
// CHECK-LABEL: func.func @equal_so_far
// CHECK-NOT:     vector.reduction
// CHECK:         arith.andi {{.*}} : i1
// CHECK:         return
func.func @equal_so_far(%x: memref<3x71xi8>, %o: memref<3xi8>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %s = arith.constant 1 : i8
    memref.store %s, %o[%i] : memref<3xi8>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0 : i8
    %v = memref.load %x[%i, %j] : memref<3x71xi8>
    %vt = arith.cmpi ne, %v, %z : i8
    %b = memref.load %o[%i] : memref<3xi8>
    %bt = arith.cmpi eq, %b, %z : i8
    %m = arith.andi %bt, %vt : i1
    %mb = arith.extui %m : i1 to i8
    memref.store %mb, %o[%i] : memref<3xi8>
    gpu.yield
  }) {name = "all", kinds = "SR", static_extents = array<i64: 3, 71>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Nothing reads the temporary: the statement that did has no points.
// CHECK-LABEL: func.func @unread
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     vector.{{.*}}store
// CHECK:         return
func.func @unread(%x: memref<2x3xf32>, %o: memref<2x0xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"() {shape = #relax.shape<["2", "3"]>} : () -> memref<2x3xf32>
  "tir.block"() ({
  }, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<2x3xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %t[%i, %j] : memref<2x3xf32>
    gpu.yield
  }) {name = "twice", kinds = "SS", static_extents = array<i64: 2, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({
  }, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %t[%i, %j] : memref<2x3xf32>
    memref.store %a, %o[%i, %j] : memref<2x0xf32>
    gpu.yield
  }) {name = "none", kinds = "SS", static_extents = array<i64: 2, 0>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
