// RUN: relax-opt %s -p "tir-lower-blocks{threads=true},cse,tir-to-linalg,schedule-apply-gpu{sm=90}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p "tir-lower-blocks{threads=true},cse,tir-to-linalg,schedule-apply-gpu{sm=90 only=ThreadBound}" --split-input-file | filecheck %s

// Thread-bound loops become thread indices; buffers become local and shared memory; barriers
// precede reads of other threads' writes; predicates disable threads of shorter loops.
// CHECK-LABEL: func.func @turn
// CHECK-SAME:    tir.rule = "ThreadBound"
// CHECK-NOT:     scf.for
// CHECK:         gpu.launch blocks(%[[B:[^,]*]], {{.*}}) in (%{{.*}} = %[[N:[^,]*]], {{.*}}) threads(%[[T:[^,]*]],
// CHECK-DAG:       memref.alloc() : memref<1x3xf32, #gpu.address_space<workgroup>>
// CHECK-DAG:       memref.alloca() : memref<1x1xf32>
// CHECK:           memref.load %arg0[%[[B]], %[[T]]]
// CHECK:           memref.store %{{.*}} : memref<1x3xf32, #gpu.address_space<workgroup>>
// CHECK:           %[[IN:.*]] = arith.cmpi ult, %[[T]]
// CHECK:           gpu.barrier
// CHECK:           scf.if %[[IN]] {
// CHECK:             memref.store %{{.*}}, %arg1[%[[B]], %[[T]]]
// CHECK:           gpu.terminator
func.func @turn(%a: memref<2x3xf32>, %b: memref<2x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %s = "tir.alloc_buffer"() {shape = #relax.shape<["2", "3"]>} : () -> memref<2x3xf32, "shared">
  %l = "tir.alloc_buffer"() {shape = #relax.shape<["2", "3"]>} : () -> memref<2x3xf32, "local">
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %j = %c0 to %c3 step %c1 {
      %v = memref.load %a[%i, %j] : memref<2x3xf32>
      memref.store %v, %l[%i, %j] : memref<2x3xf32, "local">
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
    scf.for %j = %c0 to %c3 step %c1 {
      %v = memref.load %l[%i, %j] : memref<2x3xf32, "local">
      memref.store %v, %s[%i, %j] : memref<2x3xf32, "shared">
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
    scf.for %j = %c0 to %c2 step %c1 {
      %k = arith.subi %c2, %j : index
      %v = memref.load %s[%i, %k] : memref<2x3xf32, "shared">
      memref.store %v, %b[%i, %j] : memref<2x3xf32>
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
  } {tir.kind = "thread_binding", tir.thread = "blockIdx.x"}
  return
}

// -----

// Tree reduction of three partial sums: the first adds the third, then the second; one thread
// stores the result.
// CHECK-LABEL: func.func @row_sums
// CHECK:         gpu.launch
// CHECK:           %[[PARTS:.*]] = memref.alloc() : memref<1x3xf32, #gpu.address_space<workgroup>>
// CHECK-NOT:       tir.block
// CHECK:           memref.store %{{.*}}, %[[PARTS]]
// CHECK:           gpu.barrier
// CHECK:           arith.addf
// CHECK:           memref.store %{{.*}}, %[[PARTS]]
// CHECK:           gpu.barrier
// CHECK:           arith.addf
// CHECK:           memref.store %{{.*}}, %[[PARTS]]
// CHECK:           gpu.barrier
// CHECK:           scf.if
// CHECK:             %[[SUM:.*]] = memref.load %[[PARTS]]
// CHECK-NEXT:        memref.store %[[SUM]], %arg1
// CHECK-NOT:       gpu.barrier
// CHECK:           gpu.terminator
func.func @row_sums(%a: memref<2x3xf32>, %b: memref<2xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %k = %c0 to %c3 step %c1 {
      "tir.block"(%i, %k) ({
      ^bb0(%vi: index, %vk: index):
        %zero = arith.constant 0.0 : f32
        memref.store %zero, %b[%vi] : memref<2xf32>
        gpu.yield
      }, {
      ^bb0(%vi: index, %vk: index):
        %old = memref.load %b[%vi] : memref<2xf32>
        %term = memref.load %a[%vi, %vk] : memref<2x3xf32>
        %new = arith.addf %old, %term : f32
        memref.store %new, %b[%vi] : memref<2xf32>
        gpu.yield
      }) {kinds = "SR", name = "B", operandSegmentSizes = array<i32: 0, 2>, static_extents = array<i64: 2, 3>} : (index, index) -> ()
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
  } {tir.kind = "thread_binding", tir.thread = "blockIdx.x"}
  return
}

// -----

// Tiles of a loop: a barrier before reads, and one before the next writes.
// CHECK-LABEL: func.func @tiles
// CHECK:         gpu.launch
// CHECK:           %[[TILE:.*]] = memref.alloc() : memref<4xf32, #gpu.address_space<workgroup>>
// CHECK:           scf.for
// CHECK:             memref.store %{{.*}}, %[[TILE]]
// CHECK:             gpu.barrier
// CHECK:             memref.load %[[TILE]]
// CHECK:             gpu.barrier
// CHECK-NEXT:      }
func.func @tiles(%a: memref<12xf32>, %b: memref<12xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %s = "tir.alloc_buffer"() {shape = #relax.shape<["12"]>} : () -> memref<12xf32, "shared">
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %first = arith.muli %i, %c4 : index
    scf.for %j = %c0 to %c4 step %c1 {
      %k = arith.addi %first, %j : index
      %v = memref.load %a[%k] : memref<12xf32>
      memref.store %v, %s[%k] : memref<12xf32, "shared">
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
    scf.for %j = %c0 to %c4 step %c1 {
      %k = arith.addi %first, %j : index
      %last = arith.addi %first, %c3 : index
      %from = arith.subi %last, %j : index
      %v = memref.load %s[%from] : memref<12xf32, "shared">
      memref.store %v, %b[%k] : memref<12xf32>
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
  } {tir.kind = "serial"}
  return
}

// -----

// A multiply-add is one FMA.
// CHECK-LABEL: func.func @products
// CHECK-NOT:     arith.mulf
// CHECK:         math.fma
func.func @products(%a: memref<4xf32>, %b: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %v = memref.load %a[%i] : memref<4xf32>
    %p = arith.mulf %v, %v : f32
    %s = arith.addf %p, %v : f32
    memref.store %s, %b[%i] : memref<4xf32>
  } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
  return
}
