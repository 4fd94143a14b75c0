"""The iter vars of a block are permuted."""

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


# CHECK:      for i, k in T.grid(4, 6):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vk, vi = T.axis.remap("RS", [k, i])
# CHECK:              with T.init():
# CHECK-NEXT:             B[vi] = T.float32(0.0)
# CHECK-NEXT:         B[vi] = B[vi] + A[vi, vk]
def steps(sch):
    sch.reorder_block_iter_var("B", [1, 0])


# REFUSED: error: reorder_block_iter_var: block `B` has 2 iter vars: expected each of the numbers 0 to 1 once, got [1, 1]
def refused(sch):
    sch.reorder_block_iter_var("B", [1, 1])
