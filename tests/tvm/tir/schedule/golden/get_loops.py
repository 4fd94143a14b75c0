"""The loops around a block, outermost first."""

# RUN: python -m tests.tvm.tir.schedule.apply %s --style trace | filecheck %s
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


# CHECK:        b0 = sch.get_block(name="C", func_name="main")
# CHECK-NEXT:   l1, l2 = sch.get_loops(block=b0)
# CHECK-NEXT:   sch.unroll(loop=l2)
def steps(sch):
    _, j = sch.get_loops(sch.get_block("C"))
    sch.unroll(j)


# REFUSED: error: get_block: function `main`: Cannot find a block with the name: A
def refused(sch):
    sch.get_loops(sch.get_block("A"))
