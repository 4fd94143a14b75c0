// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=512} --split-input-file | filecheck %s
// RUN: relax-opt %s -p "tir-to-linalg,schedule-apply{vector-bits=512 only=Fallback}" --split-input-file | filecheck %s --check-prefix=ONLY

// A kernel has its rule and configuration: two vectors at once, of 32 elements.
// CHECK-LABEL: func.func @wide
// CHECK-SAME:    tir.rule = "RowWise"
// CHECK:         vector.load {{.*}} vector<32xf32>
// CHECK-NOT:     vector<16xf32>
// The pass option takes precedence.
// ONLY-LABEL:  func.func @wide
// ONLY-SAME:     tir.rule = "Fallback"
func.func @wide(%x: memref<7x96xf32>, %o: memref<7x96xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "RowWise{vectors=2}"} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    %v = memref.load %x[%i, %j] : memref<7x96xf32>
    %m = arith.maximumf %v, %z : f32
    memref.store %m, %o[%i, %j] : memref<7x96xf32>
    gpu.yield
  }) {name = "relu", kinds = "SS", static_extents = array<i64: 7, 96>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A tile of two rows and one vector, against the register model.
// CHECK-LABEL: func.func @product
// CHECK-SAME:    tir.rule = "Gemm"
// CHECK:         iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9_]+}}, %{{[a-z0-9]+}} = %{{[a-z0-9_]+}}) -> (vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-2: vector.fma
func.func @product(%a: memref<6x40xf32>, %b: memref<40x32xf32>, %o: memref<6x32xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "Gemm{rows=2, vectors=1}"} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %j] : memref<6x32xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %x = memref.load %a[%i, %k] : memref<6x40xf32>
    %y = memref.load %b[%k, %j] : memref<40x32xf32>
    %p = arith.mulf %x, %y : f32
    %s = memref.load %o[%i, %j] : memref<6x32xf32>
    %t = arith.addf %s, %p : f32
    memref.store %t, %o[%i, %j] : memref<6x32xf32>
    gpu.yield
  }) {name = "product", kinds = "SSR", static_extents = array<i64: 6, 32, 40>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The name of a rule alone leaves all parameters open; a less specific rule may be named.
// CHECK-LABEL: func.func @named
// CHECK-SAME:    tir.rule = "Fallback"
func.func @named(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.config = "Fallback"} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
