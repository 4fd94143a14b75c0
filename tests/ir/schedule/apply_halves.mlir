// RUN: relax-opt %s -p "tir-to-linalg,schedule-apply{vector-bits=512 bf16-dot=true}" | filecheck %s
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply{vector-bits=512} | filecheck %s --check-prefix=PLAIN

// With `vdpbf16ps`, two products are summed per instruction: two elements of a row, broadcast to
// every lane, times two interleaved rows of columns.
// CHECK-LABEL: func.func @halves
// CHECK:         %[[COLUMNS:.+]] = vector.shuffle {{.*}} vector<16xbf16>
// CHECK:         vector.load {{.*}} : memref<192xbf16>, vector<2xbf16>
// CHECK:         %[[ROW:.+]] = vector.bitcast {{.*}} vector<16xi32> to vector<32xbf16>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%{{.*}}, %[[ROW]], %[[COLUMNS]])

// Otherwise both operands are extended to f32.
// PLAIN-LABEL: func.func @halves
// PLAIN:         scf.for {{.*}} iter_args
// PLAIN-DAG:       arith.extf {{.*}} : vector<16xbf16> to vector<16xf32>
// PLAIN-DAG:       arith.extf {{.*}} : bf16 to f32
// PLAIN:           vector.fma {{.*}} : vector<16xf32>
func.func @halves(%x: memref<16x12xbf16>, %w: memref<12x32xbf16>, %o: memref<16x32xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %j] : memref<16x32xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %a = memref.load %x[%i, %k] : memref<16x12xbf16>
    %b = memref.load %w[%k, %j] : memref<12x32xbf16>
    %c = arith.extf %a : bf16 to f32
    %d = arith.extf %b : bf16 to f32
    %p = arith.mulf %c, %d : f32
    %s = memref.load %o[%i, %j] : memref<16x32xf32>
    %n = arith.addf %s, %p : f32
    memref.store %n, %o[%i, %j] : memref<16x32xf32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: 16, 32, 12>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
