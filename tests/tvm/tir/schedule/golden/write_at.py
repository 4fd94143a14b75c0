"""A block at the end of a loop copies back the whole region written under it."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32")):
    for i_0, i_1, k in T.grid(2, 4, 6):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vk = T.axis.reduce(6, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


# CHECK:      B_local = T.alloc_buffer((8,), scope="local")
# CHECK-NEXT: for i_0 in range(2):
# CHECK-NEXT:     for i_1, k in T.grid(4, 6):
# CHECK-NEXT:         with T.block("B"):
# CHECK:                  B_local[vi] = B_local[vi] + A[vi, vk]
# CHECK-NEXT:     with T.block("B_local"):
# CHECK-NEXT:         v0 = T.axis.spatial(2, i_0)
# CHECK-NEXT:         T.reads(B_local[v0 * 4:v0 * 4 + 4])
# CHECK-NEXT:         T.writes(B[v0 * 4:v0 * 4 + 4])
# CHECK-NEXT:         T.block_attr({"auto_copy": True})
# CHECK-NEXT:         for ax0 in range(4):
# CHECK-NEXT:             B[v0 * 4 + ax0] = B_local[v0 * 4 + ax0]
def steps(sch):
    sch.write_at(sch.get_loops("B")[0], "B", 0, "local")


# REFUSED: error: write_at: block `B_init` writes `B`, too: expected all its writers under loop `k`
def refused(sch):
    k = sch.get_loops("B")[2]
    sch.decompose_reduction("B", k)
    sch.write_at(k, "B_update", 0, "local")
