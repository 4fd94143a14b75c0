"""Sibling loops are merged into one with both bodies."""

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


# CHECK:      B = T.alloc_buffer((6, 10))
# CHECK-NEXT: for i_m, j_m in T.grid(6, 10):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i_m, j_m])
# CHECK:              B[vi, vj] = A[vi, vj] * T.float32(2.0)
# CHECK-NEXT:     with T.block("C"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i_m, j_m])
# CHECK:              C[vi, vj] = B[vi, vj] + T.float32(1.0)
def steps(sch):
    sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])


# REFUSED: error: merge: loop `j` and loop `i` are at different depths: expected the same level
def refused(sch):
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[1])
