"""A bias add is fused into the init block of a reduction."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(
    A: T.Buffer((4, 6), "float32"),
    C: T.Buffer((4,), "float32"),
    D: T.Buffer((4,), "float32"),
):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = B[vi] + C[vi]


# CHECK:      B = T.alloc_buffer((4,))
# CHECK-NEXT: for i, k in T.grid(4, 6):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vk = T.axis.remap("SR", [i, k])
# CHECK:              with T.init():
# CHECK-NEXT:             D[vi] = C[vi]
# CHECK-NEXT:         D[vi] = D[vi] + A[vi, vk]
def steps(sch):
    sch.fuse_reduction_epilogue("B", "D")


# REFUSED: error: fuse_reduction_epilogue: expected that block `D_local`, and no other block, reads what block `B` writes
def refused(sch):
    sch.cache_write("D", 0, "local")
    sch.fuse_reduction_epilogue("B", "D_local")
