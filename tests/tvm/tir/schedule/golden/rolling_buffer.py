"""Overlapping tiles reuse elements of the previous tile in a circular buffer."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((11,), "float32"), C: T.Buffer((9,), "float32")):
    B = T.alloc_buffer((11,))
    for i in range(11):
        with T.block("B"):
            vi = T.axis.spatial(11, i)
            B[vi] = A[vi] * 2.0
    for i, k in T.grid(9, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vi + vk]


# CHECK:      B = T.alloc_buffer((5,))
# CHECK-NEXT: for i_0 in range(3):
# CHECK-NEXT:     for ax0 in range(5):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi = T.axis.opaque(11, i_0 * 3 + ax0)
# CHECK-NEXT:             T.where(i_0 < 1 or 2 <= ax0)
# CHECK:                  B[vi % 5] = A[vi] * T.float32(2.0)
# CHECK-NEXT:     for i_1, k in T.grid(3, 3):
# CHECK-NEXT:         with T.block("C"):
# CHECK-NEXT:             vi = T.axis.opaque(9, i_0 * 3 + i_1)
# CHECK-NEXT:             vk = T.axis.reduce(3, k)
# CHECK:                  C[vi] = C[vi] + B[(vi + vk) % 5]
def steps(sch):
    outer, _ = sch.split(sch.get_loops("C")[0], [3, 3])
    sch.compute_at("B", outer)
    sch.rolling_buffer("B", 0)


# REFUSED: error: rolling_buffer: block `B` and its readers have no common loop: expected a block that is computed at a loop of its readers
def refused(sch):
    sch.rolling_buffer("B", 0)
