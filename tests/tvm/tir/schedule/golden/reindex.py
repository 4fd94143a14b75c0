"""A block reads a transposed copy indexed by its iter vars."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((7, 6), "float32"), B: T.Buffer((6, 7), "float32")):
    for i, j in T.grid(6, 7):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] + 1.0


# CHECK:      A_reindex = T.alloc_buffer((6, 7))
# CHECK-NEXT: for ax0, ax1 in T.grid(6, 7):
# CHECK-NEXT:     with T.block("A_reindex_reindex"):
# CHECK-NEXT:         v0, v1 = T.axis.remap("SS", [ax0, ax1])
# CHECK:              A_reindex[v0, v1] = A[v1, v0]
# CHECK-NEXT: for i, j in T.grid(6, 7):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              B[vi, vj] = A_reindex[vi, vj] + T.float32(1.0)
def steps(sch):
    sch.reindex("B", ("read", 0))


# REFUSED: error: reindex: expected a block inside the function, got the root
def refused(sch):
    sch.reindex("B", ("write", 0))
    sch.reindex("root", ("read", 0))
