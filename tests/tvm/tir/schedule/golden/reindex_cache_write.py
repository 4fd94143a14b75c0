"""A block writes a cache with a given layout in its iter vars."""

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


# CHECK:      C_local = T.alloc_buffer((4, 6), scope="local")
# CHECK-NEXT: for i, j, k in T.grid(6, 4, 8):
# CHECK-NEXT:     with T.block("C"):
# CHECK-NEXT:         vi, vj, vk = T.axis.remap("SSR", [i, j, k])
# CHECK:              with T.init():
# CHECK-NEXT:             C_local[vj, vi] = T.float32(0.0)
# CHECK-NEXT:         C_local[vj, vi] = C_local[vj, vi] + A[vi, vk] * B[vk, vj]
# CHECK-NEXT: for i, j in T.grid(6, 4):
# CHECK-NEXT:     with T.block("C_local"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              C[vi, vj] = C_local[vj, vi]
def steps(sch):
    sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))


# REFUSED: error: reindex_cache_write: block `C`: the axis `vk` appears in the map, but not in the indices of the buffer
def refused(sch):
    sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i, k))
