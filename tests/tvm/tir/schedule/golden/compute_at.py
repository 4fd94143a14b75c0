"""A producer moves under a loop of its consumer and computes the region read there."""

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
# CHECK-NEXT: for i_0 in range(2):
# CHECK-NEXT:     for ax0, ax1 in T.grid(3, 10):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi = T.axis.spatial(6, i_0 * 3 + ax0)
# CHECK-NEXT:             vj = T.axis.spatial(10, ax1)
# CHECK:                  B[vi, vj] = A[vi, vj] * T.float32(2.0)
# CHECK-NEXT:     for i_1, j in T.grid(3, 10):
# CHECK-NEXT:         with T.block("C"):
# CHECK-NEXT:             vi = T.axis.spatial(6, i_0 * 3 + i_1)
# CHECK-NEXT:             vj = T.axis.spatial(10, j)
# CHECK:                  C[vi, vj] = B[vi, vj] + T.float32(1.0)
def steps(sch):
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 3])
    sch.compute_at("B", outer)


# REFUSED: error: compute_at: block `C` is an output block: expected one that writes only buffers allocated in its scope
def refused(sch):
    sch.compute_at("C", sch.get_loops("B")[0])
