"""The steps of a loop are lanes of a vector."""

# RUN: python -m tests.schedule.apply %s | filecheck %s

from relax_mlir.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      for i in range(6):
# CHECK-NEXT:     for j in T.vectorized(10):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi, vj = T.axis.remap("SS", [i, j])
# CHECK:                  B[vi, vj] = A[vi, vj] * T.float32(2.0)
def steps(sch):
    sch.vectorize(sch.get_loops("B")[1])
