// RUN: relax-opt %s -p "tir-lower-blocks{threads=true},tir-to-linalg,schedule-apply-gpu{sm=90}" --split-input-file --expect-error | filecheck %s

// The condition is the same for all threads, what it chooses is not.
// CHECK: error: {{.*}}threads exchange values in a loop whose trip count differs between them
func.func @chosen(%a: memref<8xf32>, %b: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %s = "tir.alloc_buffer"() {shape = #relax.shape<["8"]>} : () -> memref<8xf32, "shared">
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  scf.for %j = %c0 to %c8 step %c1 {
    scf.for %i = %c0 to %c8 step %c1 {
      %few = arith.cmpi ult, %j, %c7 : index
      %n = scf.if %few -> index {
        scf.yield %i : index
      } else {
        scf.yield %c1 : index
      }
      scf.for %k = %c0 to %n step %c1 {
        %v = memref.load %a[%k] : memref<8xf32>
        memref.store %v, %s[%i] : memref<8xf32, "shared">
        %o = arith.subi %c7, %i : index
        %w = memref.load %s[%o] : memref<8xf32, "shared">
        memref.store %w, %b[%i] : memref<8xf32>
      }
    } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
  } {tir.kind = "serial"}
  return
}
