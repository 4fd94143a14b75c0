"""A loop is bound to threads."""

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


# CHECK:      for i in T.thread_binding(4, thread="blockIdx.x"):
# CHECK-NEXT:     for k in range(6):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi, vk = T.axis.remap("SR", [i, k])
# CHECK:                  with T.init():
# CHECK-NEXT:                 B[vi] = T.float32(0.0)
# CHECK-NEXT:             B[vi] = B[vi] + A[vi, vk]
def steps(sch):
    i, _ = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")


# REFUSED: error: thread_binding: loop `k`: block `B` has a reduce iter var that depends on the loop: expected only spatial ones
def refused(sch):
    _, k = sch.get_loops("B")
    sch.bind(k, "blockIdx.x")
