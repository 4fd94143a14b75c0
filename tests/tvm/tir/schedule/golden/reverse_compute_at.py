"""A consumer moves under a loop of its producer and consumes the region computed there."""

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


# CHECK:      B = T.alloc_buffer((6, 10))
# CHECK-NEXT: for i, j_0 in T.grid(6, 2):
# CHECK-NEXT:     for j_1 in range(5):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi = T.axis.spatial(6, i)
# CHECK-NEXT:             vj = T.axis.spatial(10, j_0 * 5 + j_1)
# CHECK:                  B[vi, vj] = A[vi, vj] * T.float32(2.0)
# CHECK-NEXT:     for ax0 in range(5):
# CHECK-NEXT:         with T.block("C"):
# CHECK-NEXT:             vi = T.axis.spatial(6, i)
# CHECK-NEXT:             vj = T.axis.spatial(10, j_0 * 5 + ax0)
# CHECK:                  C[vi, vj] = B[vi, vj] + T.float32(1.0)
def steps(sch):
    outer, _ = sch.split(sch.get_loops("B")[1], [None, 5])
    sch.reverse_compute_at("C", outer)


# REFUSED: error: reverse_compute_at: loop `i` is an ancestor of block `C`: expected a loop that is not around it
def refused(sch):
    sch.reverse_compute_at("C", sch.get_loops("C")[0])
