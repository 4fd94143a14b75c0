// RUN: relax-opt %s -p "tir-to-linalg,schedule-apply{vector-bits=512 amx=true}" --split-input-file | filecheck %s

// Two AMX tiles of rows by two of columns: four accumulator tiles are carried over K, and stored to
// memory, from where rows are read as vectors. The remaining rows are an overlapping tile of full
// height. Columns are packed first, with two steps of K interleaved.
// CHECK-LABEL: func.func @halves
// CHECK:         %[[SUMS:.+]] = memref.alloc() : memref<32x32xf32>
// CHECK:         vector.shuffle {{.*}} vector<16xbf16>
// CHECK-COUNT-4: amx.tile_zero : !amx.tile<16x16xf32>
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (!amx.tile<16x16xf32>, !amx.tile<16x16xf32>, !amx.tile<16x16xf32>, !amx.tile<16x16xf32>)
// CHECK:           %[[B0:.+]] = amx.tile_load {{.*}} : memref<2048xbf16> into !amx.tile<16x32xbf16>
// CHECK:           %[[B1:.+]] = amx.tile_load {{.*}} : memref<2048xbf16> into !amx.tile<16x32xbf16>
// CHECK:           %[[A0:.+]] = amx.tile_load {{.*}} : memref<2880xbf16> into !amx.tile<16x32xbf16>
// CHECK-NEXT:      amx.tile_mulf %[[A0]], %[[B0]]
// CHECK-NEXT:      amx.tile_mulf %[[A0]], %[[B1]]
// CHECK:           %[[A1:.+]] = amx.tile_load
// CHECK-NEXT:      amx.tile_mulf %[[A1]], %[[B0]]
// CHECK-NEXT:      amx.tile_mulf %[[A1]], %[[B1]]
// CHECK:         amx.tile_store %[[SUMS]]
// CHECK:         scf.for
// CHECK:           vector.load %[[SUMS]]{{.*}} : memref<32x32xf32>, vector<16xf32>
// CHECK-COUNT-2: amx.tile_zero : !amx.tile<16x16xf32>
// CHECK-NOT:     amx.tile_zero
func.func @halves(%x: memref<45x64xbf16>, %w: memref<64x32xbf16>, %o: memref<45x32xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %j] : memref<45x32xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %a = memref.load %x[%i, %k] : memref<45x64xbf16>
    %b = memref.load %w[%k, %j] : memref<64x32xbf16>
    %c = arith.extf %a : bf16 to f32
    %d = arith.extf %b : bf16 to f32
    %p = arith.mulf %c, %d : f32
    %s = memref.load %o[%i, %j] : memref<45x32xf32>
    %n = arith.addf %s, %p : f32
    memref.store %n, %o[%i, %j] : memref<45x32xf32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: 45, 32, 64>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// If K is not a multiple of a tile row, steps are a divisor: 80 bytes in two steps. Fewer rows use a
// lower tile. Unsigned bytes are a flag of the instruction.
// CHECK-LABEL: func.func @bytes
// CHECK:         amx.tile_load {{.*}} into !amx.tile<10x64xi8>
// CHECK:         amx.tile_load {{.*}} into !amx.tile<5x40xi8>
// CHECK:         amx.tile_muli %{{.*}} zext, %{{.*}}, %{{.*}} : !amx.tile<5x40xi8>, !amx.tile<10x64xi8>, !amx.tile<5x16xi32>
func.func @bytes(%x: memref<5x80xi8>, %w: memref<80x32xi8>, %o: memref<5x32xi32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0 : i32
    memref.store %z, %o[%i, %j] : memref<5x32xi32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %a = memref.load %x[%i, %k] : memref<5x80xi8>
    %b = memref.load %w[%k, %j] : memref<80x32xi8>
    %c = arith.extui %a : i8 to i32
    %d = arith.extsi %b : i8 to i32
    %p = arith.muli %c, %d : i32
    %s = memref.load %o[%i, %j] : memref<5x32xi32>
    %n = arith.addi %s, %p : i32
    memref.store %n, %o[%i, %j] : memref<5x32xi32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: 5, 32, 80>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// The remainder of a dynamic number of rows is copied to a buffer of sixteen rows.
// CHECK-LABEL: func.func @open
// CHECK:         %[[REST:.+]] = memref.alloc() : memref<16x32xbf16>
// CHECK:         vector.maskedload
// CHECK:         vector.maskedstore
// CHECK:         amx.tile_load {{.*}} : memref<512xbf16> into !amx.tile<16x32xbf16>
func.func @open(%x: memref<?x32xbf16> {tir.shape = #relax.shape<["n", "32"]>}, %w: memref<32x32xbf16>, %o: memref<?x32xf32> {tir.shape = #relax.shape<["n", "32"]>}, %rows: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"(%rows) ({
  ^bb0(%i: index, %j: index, %k: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i, %j] : memref<?x32xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index, %k: index):
    %a = memref.load %x[%i, %k] : memref<?x32xbf16>
    %b = memref.load %w[%k, %j] : memref<32x32xbf16>
    %c = arith.extf %a : bf16 to f32
    %d = arith.extf %b : bf16 to f32
    %p = arith.mulf %c, %d : f32
    %s = memref.load %o[%i, %j] : memref<?x32xf32>
    %m = arith.addf %s, %p : f32
    memref.store %m, %o[%i, %j] : memref<?x32xf32>
    gpu.yield
  }) {name = "matmul", kinds = "SSR", static_extents = array<i64: -1, 32, 32>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  return
}
