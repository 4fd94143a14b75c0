// RUN: relax-opt %s -p schedule-lower-abi --split-input-file --expect-error | filecheck %s

// Loops without a schedule have no tiles.
// CHECK: error: kernel `unscheduled`: expected one loop over tiles, got 0. Hint: run `schedule-apply` first.
func.func @unscheduled(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
  }
  return
}

// -----

// Two loops over tiles would need two calls of the runtime.
// CHECK: error: kernel `twice`: expected one loop over tiles, got 2.
func.func @twice(%o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.rule = "RowWise"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
  } {tir.grain = 1 : i64}
  scf.for %i = %c0 to %c1 step %c1 {
  } {tir.grain = 1 : i64}
  return
}
