"""A block reads its operand through a cache in another storage scope."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      A_shared = T.alloc_buffer((6, 10), scope="shared")
# CHECK-NEXT: for ax0, ax1 in T.grid(6, 10):
# CHECK-NEXT:     with T.block("A_shared"):
# CHECK-NEXT:         v0, v1 = T.axis.remap("SS", [ax0, ax1])
# CHECK:              A_shared[v0, v1] = A[v0, v1]
# CHECK-NEXT: for i, j in T.grid(6, 10):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              B[vi, vj] = A_shared[vi, vj] * T.float32(2.0)
def steps(sch):
    sch.cache_read("B", 0, "shared")


# REFUSED: error: cache_read: block `B` reads 1 buffers: expected a number from 0 to 0, got 1
def refused(sch):
    sch.cache_read("B", 1, "shared")
