// RUN: relax-opt %s -p tir-lower-blocks{threads=true} --split-input-file | filecheck %s
// RUN: relax-opt %s -p tir-lower-blocks --split-input-file | filecheck %s --check-prefix=SERIAL

// Thread-local and shared buffers get their address spaces.
// CHECK-LABEL: func.func @turn
// CHECK-DAG:     %[[OWN:.*]] = memref.alloc() : memref<2x3xf32, #gpu.address_space<private>>
// CHECK-DAG:     %[[SHARED:.*]] = memref.alloc() : memref<2x3xf32, #gpu.address_space<workgroup>>
// CHECK:         memref.store %{{.*}}, %[[OWN]]
// CHECK:         } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
// CHECK:         memref.load %[[OWN]]
// CHECK:         memref.store %{{.*}}, %[[SHARED]]
// CHECK:         memref.load %[[SHARED]]
// CHECK:         } {tir.kind = "thread_binding", tir.thread = "blockIdx.x"}

// A target without threads has one memory space.
// SERIAL-LABEL: func.func @turn
// SERIAL-COUNT-2: "tir.alloc_buffer"() {{.*}} : () -> memref<2x3xf32>
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

// A cross-thread reduction stays a block; without threads it is lowered to loops.
// CHECK-LABEL: func.func @row_sums
// CHECK:         "tir.block"(%{{.*}}, %{{.*}}) ({
// CHECK:         } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
// SERIAL-LABEL: func.func @row_sums
// SERIAL-NOT:     tir.block
// SERIAL:         arith.cmpi eq
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

// Barriers are kept.
// CHECK-LABEL: func.func @wait
// CHECK:         memref.store
// CHECK-NEXT:    gpu.barrier
// SERIAL-LABEL: func.func @wait
// SERIAL-NOT:     gpu.barrier
func.func @wait(%a: memref<3xf32>, %b: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %v = memref.load %a[%i] : memref<3xf32>
    memref.store %v, %b[%i] : memref<3xf32>
    %none = builtin.unrealized_conversion_cast to tuple<>
    %zero = "tir.call"(%none) {callee = "tvm_storage_sync", literals = ["shared"], tir.dtype = "int32"} : (tuple<>) -> i32
    "tir.evaluate"(%zero) : (i32) -> ()
  } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
  return
}

// -----

// A program without thread-bound loops has one memory space, too.
// CHECK-LABEL: func.func @plain
// CHECK:         "tir.alloc_buffer"() {{.*}} : () -> memref<3xf32>
func.func @plain(%a: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %l = "tir.alloc_buffer"() {shape = #relax.shape<["3"]>} : () -> memref<3xf32, "local">
  %c0 = arith.constant 0 : index
  %v = memref.load %l[%c0] : memref<3xf32, "local">
  memref.store %v, %a[%c0] : memref<3xf32>
  return
}
