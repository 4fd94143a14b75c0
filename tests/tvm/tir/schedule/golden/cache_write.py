"""A block writes a cache in another storage scope, which is copied back."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


# CHECK:      B_local = T.alloc_buffer((4,), scope="local")
# CHECK-NEXT: for i, k in T.grid(4, 6):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vk = T.axis.remap("SR", [i, k])
# CHECK:              with T.init():
# CHECK-NEXT:             B_local[vi] = T.float32(0.0)
# CHECK-NEXT:         B_local[vi] = B_local[vi] + A[vi, vk]
# CHECK-NEXT: for ax0 in range(4):
# CHECK-NEXT:     with T.block("B_local"):
# CHECK-NEXT:         v0 = T.axis.spatial(4, ax0)
# CHECK:              B[v0] = B_local[v0]
def steps(sch):
    sch.cache_write("B", 0, "local")


# REFUSED: error: cache_write: no storage scope `nowhere`: expected one of global, shared, shared.dyn, local, warp, texture, vtcm, wmma.matrix_a, wmma.matrix_b, wmma.accumulator, global.vtcm, m16n8k8.matrixA, m16n8k8.matrixB, m16n8k8.matrixC, global.texture, metal.simdgroup, global.texture-nhwc, global.texture-weight
def refused(sch):
    sch.cache_write("B", 0, "nowhere")
