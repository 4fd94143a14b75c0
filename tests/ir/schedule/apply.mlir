// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=512} --split-input-file | filecheck %s
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=128} --split-input-file | filecheck %s --check-prefix=NARROW

// A map over whole buffers: vectors, then the rest under a mask.
// CHECK-LABEL: func.func @relu
// CHECK-SAME:    tir.rule = "Rows"
// CHECK-NOT:     linalg.generic
// CHECK:         vector.load %arg0{{.*}} vector<16xf32>
// CHECK:         vector.create_mask
// CHECK:         vector.maskedload %arg0
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

// A matrix product and the map after it: accumulators over the sum, the map on them, one store.
// CHECK-LABEL: func.func @dense
// CHECK-SAME:    tir.rule = "Contraction"
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

// Loops that are there already are one tile of whatever the fallback finds; sizes stay out.
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

// What has its loops keeps them; what is elsewhere, or no tensor program, has none to get.
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
