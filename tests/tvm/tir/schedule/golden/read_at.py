"""A block at a loop copies the whole region read under it."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 4), "float32")):
    for i, j, k in T.grid(8, 4, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = 0.0
            B[vi, vj] = B[vi, vj] + A[vi, vj + vk]


# CHECK:      A_shared = T.alloc_buffer((8, 6), scope="shared")
# CHECK-NEXT: for i_0 in T.thread_binding(4, thread="blockIdx.x"):
# CHECK-NEXT:     for i_1 in T.thread_binding(2, thread="threadIdx.x"):
# CHECK-NEXT:         for j in range(4):
# CHECK-NEXT:             with T.block("A_shared"):
# CHECK-NEXT:                 v0, v1 = T.axis.remap("SS", [i_0, j])
# CHECK-NEXT:                 T.reads(A[v0 * 2:v0 * 2 + 2, v1:v1 + 3])
# CHECK-NEXT:                 T.writes(A_shared[v0 * 2:v0 * 2 + 2, v1:v1 + 3])
# CHECK-NEXT:                 T.block_attr({"auto_copy": True})
# CHECK-NEXT:                 for ax0, ax1 in T.grid(2, 3):
# CHECK-NEXT:                     A_shared[v0 * 2 + ax0, v1 + ax1] = A[v0 * 2 + ax0, v1 + ax1]
# CHECK-NEXT:             for k in range(3):
# CHECK-NEXT:                 with T.block("B"):
# CHECK:                          B[vi, vj] = B[vi, vj] + A_shared[vi, vj + vk]
def steps(sch):
    i, j, _ = sch.get_loops("B")
    block, thread = sch.split(i, [4, 2])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.read_at(j, "B", 0, "shared")


# REFUSED: error: read_at: block `B` reads 1 buffers: expected a number from 0 to 0, got 1
def refused(sch):
    sch.read_at(sch.get_loops("B")[0], "B", 1, "shared")
