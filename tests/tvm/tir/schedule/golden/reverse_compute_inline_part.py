"""A producer is predicated to the elements that the inlined consumer reads."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((8,), "float32"), C: T.Buffer((5,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = B[vi + 2] + 1.0


# CHECK:      for i in range(8):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi = T.axis.spatial(8, i)
# CHECK-NEXT:         T.where(2 <= i and i < 7)
# CHECK:              C[vi - 2] = A[vi] * T.float32(2.0) + T.float32(1.0)
def steps(sch):
    sch.reverse_compute_inline("C")


# REFUSED: error: reverse_compute_inline: block `B`: expected a single producer that is a complete block with a single consumer
def refused(sch):
    sch.cache_read("C", 0, "local")
    sch.reverse_compute_inline("B")
