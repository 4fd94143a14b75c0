// RUN: relax-opt %s -p tir-to-linalg,schedule-apply-gpu{only=RowReduction} --split-input-file --expect-error | filecheck %s
// RUN: relax-opt %s -p tir-to-linalg,schedule-apply-gpu{only=Rows} --split-input-file --expect-error | filecheck %s --check-prefix=NAME

// CHECK: error: kernel `copy`: `RowReduction` does not take it: it has no reduction
// NAME:  error: unknown rule `Rows`: expected one of {{.*}}Fallback
func.func @copy(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "copy", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
