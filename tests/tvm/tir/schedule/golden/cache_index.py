"""An index expression is precomputed over its iter var."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5, 18), "float32")):
    for i, j in T.grid(5, 18):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj // 2] + 1.0


# CHECK:      index_var_0 = T.alloc_buffer((18,), "int32", strides=(1,))
# CHECK-NEXT: for ax0 in range(18):
# CHECK-NEXT:     with T.block("index_0"):
# CHECK-NEXT:         v0 = T.axis.spatial(18, ax0)
# CHECK:              index_var_0[v0] = v0 // 2
# CHECK-NEXT: for i, j in T.grid(5, 18):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              B[vi, vj] = A[vi, index_var_0[vj]] + T.float32(1.0)
def steps(sch):
    sch.cache_index("B", "global")


# REFUSED: error: cache_index: block `B`: expected an index expression that is computed 2 times or more, got only iter vars and constants
def refused(sch):
    sch.cache_index("B", "global", 2)
