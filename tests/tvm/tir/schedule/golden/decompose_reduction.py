"""The init block of a reduction moves in front of a loop."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


# CHECK:      for i in range(4):
# CHECK-NEXT:     with T.block("B_init"):
# CHECK-NEXT:         vi_init = T.axis.spatial(4, i)
# CHECK:              B[vi_init] = T.float32(0.0)
# CHECK-NEXT:     for k in range(6):
# CHECK-NEXT:         with T.block("B_update"):
# CHECK-NEXT:             vi, vk = T.axis.remap("SR", [i, k])
# CHECK:                  B[vi] = B[vi] + A[vi, vk]
def steps(sch):
    _, k = sch.get_loops("B")
    sch.decompose_reduction("B", k)


# REFUSED: error: decompose_reduction: loop `k` is part of a reduce axis and outside of loop `i`: expected a loop around all reduce loops
def refused(sch):
    i, k = sch.get_loops("B")
    sch.reorder(k, i)
    sch.decompose_reduction("B", i)
