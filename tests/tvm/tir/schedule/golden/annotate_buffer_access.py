"""The read region of a block is widened to a neighbourhood."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), C: T.Buffer((6, 10), "float32")):
    B = T.alloc_buffer((6, 10))
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(6, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


# CHECK:      T.reads(A[vi - 1:vi + 2, vj])
# CHECK-NEXT: T.writes(B[vi, vj])
# CHECK-NEXT: T.block_attr({"explicit_read_region": [0]})
def steps(sch):
    sch.annotate_buffer_access("B", 0, "read", lambda i, j: ((i - 1, i + 2), j))


# REFUSED: error: annotate_buffer_access: block `B` has 1 read regions: expected a number from 0 to 0, got 1
def refused(sch):
    sch.annotate_buffer_access("B", 1, "read", lambda i, j: (i, j))
