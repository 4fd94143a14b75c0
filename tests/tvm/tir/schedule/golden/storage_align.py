"""The stride of a written buffer is aligned."""

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


# CHECK:      T.block_attr({"buffer_dim_align": {{.}}[0, 0, 16, 1]]})
def steps(sch):
    sch.storage_align("B", 0, axis=-2, factor=16, offset=1)


# REFUSED: error: storage_align: buffer `B` has 2 dimensions: expected an axis from -2 to 1, got 2
def refused(sch):
    sch.storage_align("B", 0, axis=2, factor=16, offset=1)
