"""The rows and columns of an iter domain are flattened."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((7, 6), "float32"), B: T.Buffer((6, 7), "float32")):
    for i, j in T.grid(6, 7):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] + 1.0


# CHECK:      for ax0 in range(42):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         v0 = T.axis.spatial(42, ax0)
# CHECK:              B[v0 // 7, v0 % 7] = A[v0 % 7, v0 // 7] + T.float32(1.0)
def steps(sch):
    sch.transform_block_layout("B", lambda i, j: (i * 7 + j,))


# REFUSED: error: transform_block_layout: the index map lambda i, j: (i // 4, i % 4, j,) is not bijective affine on the iter domain of block `B`
def refused(sch):
    sch.transform_block_layout("B", lambda i, j: (i // 4, i % 4, j))
