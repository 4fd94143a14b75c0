// RUN: relax-opt %s -p tir-lower-blocks --split-input-file --expect-error | filecheck %s

// CHECK: error: {{.*}}expected a vector of fixed length, got a scalable vector
func.func @scalable(%o: memref<9xi32>, %base: i32 {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %v = "tir.ramp"(%base, %base) : (i32, i32) -> vector<[2]xi32>
  %to = arith.index_cast %v : vector<[2]xi32> to vector<[2]xindex>
  "tir.vector_store"(%v, %o, %to) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (vector<[2]xi32>, memref<9xi32>, vector<[2]xindex>) -> ()
  return
}

// -----

// CHECK: error: {{.*}}a predicated vector access has no lowering: expected a mask of all lanes
func.func @masked(%o: memref<9xi32>, %base: i32 {tir.param}, %mask: vector<2xi1> {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %v = "tir.ramp"(%base, %base) : (i32, i32) -> vector<2xi32>
  %to = arith.index_cast %v : vector<2xi32> to vector<2xindex>
  "tir.vector_store"(%v, %o, %to, %mask) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>} : (vector<2xi32>, memref<9xi32>, vector<2xindex>, vector<2xi1>) -> ()
  return
}

// -----

// CHECK: error: {{.*}}a buffer over a foreign pointer has no lowering
func.func @foreign(%o: memref<6xf32>, %p: !llvm.ptr {tir.param}, %value: f32 {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %v = "tir.decl_buffer"(%p) {shape = #relax.shape<["2"]>} : (!llvm.ptr) -> memref<2xf32>
  memref.store %value, %v[%c0] : memref<2xf32>
  return
}

// -----

// CHECK: error: {{.*}}size 0 of a buffer depends on loops: expected loops of constant bounds
func.func @unbounded(%x: memref<?xf32> {tir.shape = #relax.shape<["n"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["n"]>}, %n: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %m = arith.addi %i, %c1 : index
    %s = "tir.alloc_buffer"(%m) {shape = #relax.shape<["i + 1"]>} : (index) -> memref<?xf32>
    %a = memref.load %x[%i] : memref<?xf32>
    memref.store %a, %s[%i] : memref<?xf32>
    %b = memref.load %s[%i] : memref<?xf32>
    memref.store %b, %o[%i] : memref<?xf32>
  } {tir.kind = "serial"}
  return
}
