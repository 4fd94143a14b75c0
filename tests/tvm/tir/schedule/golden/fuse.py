"""A loop nest is fused; its variables become quotients and remainders."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      for i_j_fused in range(60):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi = T.axis.spatial(6, i_j_fused // 10)
# CHECK-NEXT:         vj = T.axis.spatial(10, i_j_fused % 10)
# CHECK:              B[vi, vj] = A[vi, vj] * T.float32(2.0)
def steps(sch):
    sch.fuse(*sch.get_loops("B"))


# REFUSED: error: fuse: loop `i` is not directly inside loop `j`: expected loops in order, each the body of the one before
def refused(sch):
    i, j = sch.get_loops("B")
    sch.fuse(j, i)
