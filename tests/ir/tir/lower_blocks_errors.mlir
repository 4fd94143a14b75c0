// RUN: relax-opt %s -p tir-lower-blocks --split-input-file --expect-error | filecheck %s

// CHECK: error: {{.*}}expected a vector of known length, got one that the machine decides
func.func @scalable(%o: memref<9xi32>, %base: i32 {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %v = "tir.ramp"(%base, %base) : (i32, i32) -> vector<[2]xi32>
  %to = arith.index_cast %v : vector<[2]xi32> to vector<[2]xindex>
  "tir.vector_store"(%v, %o, %to) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (vector<[2]xi32>, memref<9xi32>, vector<[2]xindex>) -> ()
  return
}

// -----

// CHECK: error: {{.*}}a predicate of lanes has no lowering for a CPU: expected all lanes
func.func @masked(%o: memref<9xi32>, %base: i32 {tir.param}, %mask: vector<2xi1> {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %v = "tir.ramp"(%base, %base) : (i32, i32) -> vector<2xi32>
  %to = arith.index_cast %v : vector<2xi32> to vector<2xindex>
  "tir.vector_store"(%v, %o, %to, %mask) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>} : (vector<2xi32>, memref<9xi32>, vector<2xindex>, vector<2xi1>) -> ()
  return
}

// -----

// CHECK: error: {{.*}}a buffer in foreign memory has no lowering for a CPU
func.func @foreign(%o: memref<6xf32>, %p: !llvm.ptr {tir.param}, %value: f32 {tir.param}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %v = "tir.decl_buffer"(%p) {shape = #relax.shape<["2"]>} : (!llvm.ptr) -> memref<2xf32>
  memref.store %value, %v[%c0] : memref<2xf32>
  return
}
