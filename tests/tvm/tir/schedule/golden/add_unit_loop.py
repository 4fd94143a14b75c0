"""A loop of extent 1 is added around a block."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      for i, j, u in T.grid(6, 10, 1):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              B[vi, vj] = A[vi, vj] * T.float32(2.0)
def steps(sch):
    sch.add_unit_loop(sch.get_block("B"))


# REFUSED: error: add_unit_loop: expected a loop or a block, got the root
def refused(sch):
    sch.add_unit_loop(sch.get_block("root"))
