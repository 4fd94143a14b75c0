// RUN: relax-opt %s -p tir-lower-blocks --split-input-file | filecheck %s

// The initialization is executed at the first reduction point, under the block's predicate.
// CHECK-LABEL: func.func @sum
// CHECK-NOT:     tir.block
// CHECK:         scf.if %{{.*}} {
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %[[K:.*]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[FIRST]] {
// CHECK:             memref.store
// CHECK:           }
// CHECK-NEXT:      memref.load %arg0[%{{.*}}, %[[K]]]
func.func @sum(%x: memref<3x5xf32>, %o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  scf.for %i = %c0 to %c3 step %c1 {
    scf.for %k0 = %c0 to %c3 step %c1 {
      scf.for %k1 = %c0 to %c2 step %c1 {
        %t = arith.muli %k0, %c2 : index
        %k = arith.addi %t, %k1 : index
        %in = arith.cmpi slt, %k, %c5 : index
        scf.if %in {
          "tir.block"(%i, %k) ({
          ^bb0(%vi: index, %vk: index):
            %z = arith.constant 0.0 : f32
            memref.store %z, %o[%vi] : memref<3xf32>
            gpu.yield
          }, {
          ^bb0(%vi: index, %vk: index):
            %a = memref.load %x[%vi, %vk] : memref<3x5xf32>
            %b = memref.load %o[%vi] : memref<3xf32>
            %s = arith.addf %a, %b : f32
            memref.store %s, %o[%vi] : memref<3xf32>
            gpu.yield
          }) {name = "S", kinds = "SR", static_extents = array<i64: 3, 5>, operandSegmentSizes = array<i32: 0, 2>} : (index, index) -> ()
        } {tir.where}
      } {tir.kind = "serial"}
    } {tir.kind = "serial"}
  } {tir.kind = "parallel"}
  return
}

// -----

// A block's buffer becomes one of the program, in the only memory space.
// CHECK-LABEL: func.func @cached
// CHECK-NEXT:    %[[B:.*]] = "tir.alloc_buffer"() {{.*}} -> memref<4xf32>
// CHECK:         scf.for
// CHECK:         memref.store %{{.*}}, %[[B]]
func.func @cached(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    "tir.block"(%i) ({}, {
    ^bb0(%vi: index):
      %b = "tir.alloc_buffer"() {shape = #relax.shape<["4"]>} : () -> memref<4xf32, "local">
      %a = memref.load %x[%vi] : memref<4xf32>
      %n = "tir.let"(%a) {name = "n"} : (f32) -> f32
      memref.store %n, %b[%vi] : memref<4xf32, "local">
      %c = memref.load %b[%vi] : memref<4xf32, "local">
      memref.store %c, %o[%vi] : memref<4xf32>
      gpu.yield
    }) {name = "o", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 1>} : (index) -> ()
  } {tir.kind = "serial"}
  return
}

// -----

// An unscheduled program is left for `tir-to-linalg`.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    "tir.block"()
func.func @plain(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "o", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Contiguous elements are loaded as a vector, others one by one.
// CHECK-LABEL: func.func @vectors
// CHECK:         %[[V:.*]] = vector.load %arg0[%{{.*}}] : memref<9xf32>, vector<3xf32>
// CHECK-COUNT-3: memref.store %{{.*}}, %arg1[%{{.*}}] : memref<9xf32>
// CHECK-NOT:     memref.store
func.func @vectors(%x: memref<9xf32>, %o: memref<9xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %one = arith.constant 1 : i32
  %four = arith.constant 4 : i32
  %near = "tir.ramp"(%four, %one) : (i32, i32) -> vector<3xi32>
  %far = "tir.ramp"(%one, %four) : (i32, i32) -> vector<3xi32>
  %from = arith.index_cast %near : vector<3xi32> to vector<3xindex>
  %to = arith.index_cast %far : vector<3xi32> to vector<3xindex>
  %v = "tir.vector_load"(%x, %from) {operandSegmentSizes = array<i32: 1, 0, 1, 0>} : (memref<9xf32>, vector<3xindex>) -> vector<3xf32>
  "tir.vector_store"(%v, %o, %to) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (vector<3xf32>, memref<9xf32>, vector<3xindex>) -> ()
  return
}

// -----

// A ramp is its base plus multiples of the stride.
// CHECK-LABEL: func.func @run
// CHECK-DAG:     %[[N:.*]] = arith.constant dense<[0, 1, 2]> : vector<3xi32>
// CHECK-DAG:     %[[BASE:.*]] = vector.broadcast %arg1 : i32 to vector<3xi32>
// CHECK:         %[[M:.*]] = arith.muli %[[N]], %{{.*}} : vector<3xi32>
// CHECK-NEXT:    %[[R:.*]] = arith.addi %[[BASE]], %[[M]] : vector<3xi32>
// CHECK:         vector.store %[[R]], %arg0[%{{.*}}]
func.func @run(%o: memref<3xi32>, %base: i32 {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %v = "tir.ramp"(%base, %two) : (i32, i32) -> vector<3xi32>
  %places = "tir.ramp"(%zero, %one) : (i32, i32) -> vector<3xi32>
  %to = arith.index_cast %places : vector<3xi32> to vector<3xindex>
  "tir.vector_store"(%v, %o, %to) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (vector<3xi32>, memref<3xi32>, vector<3xindex>) -> ()
  return
}

// -----

// An aliasing buffer is a view; attribute statements are removed.
// CHECK-LABEL: func.func @viewed
// CHECK-NEXT:    %[[V:.*]] = memref.reinterpret_cast %arg0 to offset: [0], sizes: [2, 3], strides: [3, 1] : memref<6xf32> to memref<2x3xf32>
// CHECK:         memref.store %{{.*}}, %[[V]]
// CHECK-NOT:     tir.
func.func @viewed(%o: memref<6xf32>, %value: f32 {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %p = "tir.address"(%o) : (memref<6xf32>) -> !llvm.ptr
  %v = "tir.decl_buffer"(%p) {shape = #relax.shape<["2", "3"]>} : (!llvm.ptr) -> memref<2x3xf32>
  %tuple = builtin.unrealized_conversion_cast to tuple<>
  "tir.attr"(%tuple) ({}, {
    %c0 = arith.constant 0 : index
    memref.store %value, %v[%c0, %c0] : memref<2x3xf32>
    gpu.yield
  }) {key = "said", form = "one", literals = ["of", "it"]} : (tuple<>) -> ()
  return
}

// -----

// A call of a C function declares it; the address of an element is a 64-bit integer.
// CHECK-LABEL: func.func private @fill(i64, i32) -> i32
// CHECK-LABEL: func.func @calls(
// CHECK-SAME:    %[[O:[a-z0-9]+]]: memref<2x3xf32>
// CHECK:         %[[BASE:.*]] = memref.extract_aligned_pointer_as_index %[[O]]
// CHECK:         %[[START:.*]] = arith.index_cast %[[BASE]] : index to i64
// CHECK:         arith.muli
// CHECK:         call @fill(%{{.*}}, %{{.*}}) : (i64, i32) -> i32
// CHECK-NOT:     tir.
func.func @calls(%o: memref<2x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = arith.constant 4 : i32
  %p = "tir.address"(%o, %c1, %c2) : (memref<2x3xf32>, index, index) -> !llvm.ptr
  %args = builtin.unrealized_conversion_cast %p, %n : !llvm.ptr, i32 to tuple<!llvm.ptr, i32>
  %r = "tir.call"(%args) {callee = "call_extern", literals = ["fill", unit, unit], tir.dtype = "int32"} : (tuple<!llvm.ptr, i32>) -> i32
  "tir.evaluate"(%r) : (i32) -> ()
  return
}

// -----

// An empty reduction is its initial value, which is stored before the loops of a domain of dynamic
// size.
// CHECK-LABEL: func.func @grid
// CHECK:         scf.for %[[I:.*]] =
// CHECK-NOT:       scf.for
// CHECK:           memref.store %{{.*}}, %arg1[%[[I]]]
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK-NOT:         scf.if
// CHECK:             memref.load %arg0
func.func @grid(%x: memref<3x?xf32> {tir.shape = #relax.shape<["3", "n"]>}, %o: memref<3xf32>, %n: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  memref.store %z, %o[%c0] : memref<3xf32>
  "tir.block"(%n) ({
  ^bb0(%vi: index, %vk: index):
    %s = arith.constant 0.0 : f32
    memref.store %s, %o[%vi] : memref<3xf32>
    gpu.yield
  }, {
  ^bb0(%vi: index, %vk: index):
    %a = memref.load %x[%vi, %vk] : memref<3x?xf32>
    %b = memref.load %o[%vi] : memref<3xf32>
    %t = arith.addf %a, %b : f32
    memref.store %t, %o[%vi] : memref<3xf32>
    gpu.yield
  }) {name = "S", kinds = "SR", static_extents = array<i64: 3, -1>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  return
}

// A buffer whose size depends on loops has the largest size of all iterations.
// CHECK-LABEL: func.func @triangle
// CHECK:         "tir.alloc_buffer"() {shape = #relax.shape<["2", "9"]>{{.*}}} : () -> memref<2x9xf32>
// CHECK:         "tir.alloc_buffer"() {shape = #relax.shape<["6"]>{{.*}}} : () -> memref<6xf32>
func.func @triangle(%o: memref<6xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c6 step %c1 {
    "tir.block"(%i) ({}, {
    ^bb0(%v: index):
      %n = arith.addi %v, %c1 : index
      %s = "tir.alloc_buffer"(%n) {shape = #relax.shape<["v + 1"]>} : (index) -> memref<?xf32>
      scf.for %k = %c0 to %n step %c1 {
        %m = arith.subi %n, %k : index
        %more = arith.addi %m, %c2 : index
        %most = arith.addi %more, %c1 : index
        %t = "tir.alloc_buffer"(%most) {shape = #relax.shape<["2", "m"]>} : (index) -> memref<2x?xf32>
        %a = arith.constant 1.0 : f32
        memref.store %a, %t[%c1, %c0] : memref<2x?xf32>
        %b = memref.load %t[%c1, %c0] : memref<2x?xf32>
        memref.store %b, %s[%k] : memref<?xf32>
      }
      %r = memref.load %s[%v] : memref<?xf32>
      memref.store %r, %o[%v] : memref<6xf32>
      gpu.yield
    }) {name = "S", kinds = "S", static_extents = array<i64: 6>, operandSegmentSizes = array<i32: 0, 1>} : (index) -> ()
  }
  return
}
