"""A block updates a cache, with copies in and out."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.block("A"):
            vi = T.axis.spatial(12, i)
            A[vi] = A[vi] + 1.0


# CHECK:      A_local = T.alloc_buffer((12,), scope="local")
# CHECK-NEXT: for i in range(12):
# CHECK-NEXT:     for ax0 in range(1):
# CHECK-NEXT:         with T.block("A_local"):
# CHECK-NEXT:             v0 = T.axis.spatial(12, i + ax0)
# CHECK:                  A_local[v0] = A[v0]
# CHECK-NEXT:     with T.block("A"):
# CHECK-NEXT:         vi = T.axis.spatial(12, i)
# CHECK:              A_local[vi] = A_local[vi] + T.float32(1.0)
# CHECK-NEXT:     for ax0 in range(1):
# CHECK-NEXT:         with T.block("A_local"):
# CHECK-NEXT:             v0 = T.axis.spatial(12, i + ax0)
# CHECK:                  A[v0] = A_local[v0]
def steps(sch):
    sch.cache_inplace("A", 0, "local")


# REFUSED: error: cache_inplace: no storage scope `nowhere`: expected one of global, shared, shared.dyn, local, warp, texture, vtcm, wmma.matrix_a, wmma.matrix_b, wmma.accumulator, global.vtcm, m16n8k8.matrixA, m16n8k8.matrixB, m16n8k8.matrixC, global.texture, metal.simdgroup, global.texture-nhwc, global.texture-weight
def refused(sch):
    sch.cache_inplace("A", 0, "nowhere")
