"""Two loops are tiled."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      for i_0, j_0, i_1, j_1 in T.grid(3, 2, 2, 5):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi = T.axis.spatial(6, i_0 * 2 + i_1)
# CHECK-NEXT:         vj = T.axis.spatial(10, j_0 * 5 + j_1)
# CHECK:              B[vi, vj] = A[vi, vj] * T.float32(2.0)
def steps(sch):
    i, j = sch.get_loops("B")
    sch.tile("B", i, j, 2, 5)


# REFUSED: error: split: loop `j`: expected factors above 0, got 0
def refused(sch):
    i, j = sch.get_loops("B")
    sch.tile("B", i, j, 2, 0)
