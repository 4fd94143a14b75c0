"""The axes of a buffer are separated into two groups."""

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


# CHECK:      B = T.alloc_buffer((6, 10), axis_separators=[1])
def steps(sch):
    sch.set_axis_separator("B", ("write", 0), [1])


# REFUSED: error: set_axis_separator: buffer `B` has 2 dimensions: expected increasing numbers from 0 to 2, got [3]
def refused(sch):
    sch.set_axis_separator("B", ("write", 0), [3])
