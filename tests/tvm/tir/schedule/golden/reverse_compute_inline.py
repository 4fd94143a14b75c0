"""A block is inlined into its producer."""

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


# CHECK:      for i, j in T.grid(6, 10):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              C[vi, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)
def steps(sch):
    sch.reverse_compute_inline("C")


# REFUSED: error: reverse_compute_inline: block `B`: expected a single producer that is a complete block with a single consumer
def refused(sch):
    sch.reverse_compute_inline("B")
