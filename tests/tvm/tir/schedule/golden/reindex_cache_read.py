"""A block reads a cache with a given layout in its iter vars."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(
    A: T.Buffer((6, 8), "float32"),
    B: T.Buffer((8, 4), "float32"),
    C: T.Buffer((6, 4), "float32"),
):
    for i, j, k in T.grid(6, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


# CHECK:      B_shared = T.alloc_buffer((4, 2, 4), scope="shared")
# CHECK-NEXT: for j, k in T.grid(4, 8):
# CHECK-NEXT:     with T.block("B_shared"):
# CHECK-NEXT:         vj, vk = T.axis.remap("SS", [j, k])
# CHECK:              B_shared[vj, vk // 4, vk % 4] = B[vk, vj]
# CHECK-NEXT: for i, j, k in T.grid(6, 4, 8):
# CHECK-NEXT:     with T.block("C"):
# CHECK-NEXT:         vi, vj, vk = T.axis.remap("SSR", [i, j, k])
# CHECK:              with T.init():
# CHECK-NEXT:             C[vi, vj] = T.float32(0.0)
# CHECK-NEXT:         C[vi, vj] = C[vi, vj] + A[vi, vk] * B_shared[vj, vk // 4, vk % 4]
def steps(sch):
    sch.reindex_cache_read("C", 1, "shared", lambda i, j, k: (j, k // 4, k % 4))


# REFUSED: error: reindex_cache_read: block `C`: the axis `vk` appears in the indices of the buffer, but not in the map
def refused(sch):
    sch.reindex_cache_read("C", 1, "shared", lambda i, j, k: (j,))
