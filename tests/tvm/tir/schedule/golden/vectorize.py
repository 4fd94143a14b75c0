"""A loop is vectorized."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((10,), "float32")):
    for k, j in T.grid(6, 10):
        with T.block("B"):
            vk, vj = T.axis.remap("RS", [k, j])
            with T.init():
                B[vj] = 0.0
            B[vj] = B[vj] + A[vk, vj]


# CHECK:      for k in range(6):
# CHECK-NEXT:     for j in T.vectorized(10):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vk, vj = T.axis.remap("RS", [k, j])
# CHECK:                  B[vj] = B[vj] + A[vk, vj]
def steps(sch):
    sch.vectorize(sch.get_loops("B")[1])


# REFUSED: error: vectorized: loop `k`: block `B` has a reduce iter var that depends on the loop: expected only spatial ones
def refused(sch):
    sch.vectorize(sch.get_loops("B")[0])
