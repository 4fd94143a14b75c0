"""A buffer layout is tiled; the last tile is padded."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), C: T.Buffer((6, 10), "float32")):
    B = T.alloc_buffer((6, 10))
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(6, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


# CHECK:      B = T.alloc_buffer((2, 10, 4))
# CHECK-NEXT: for axis0, j, axis2 in T.grid(2, 10, 4):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         v_axis0, v_j, v_axis2 = T.axis.remap("SSS", [axis0, j, axis2])
# CHECK:              B[v_axis0, v_j, v_axis2] = T.if_then_else(v_axis0 == 1 and 2 <= v_axis2, T.float32(0.0), A[v_axis0 * 4 + v_axis2, v_j] * T.float32(2.0))
# CHECK-NEXT: for i, j in T.grid(6, 10):
# CHECK-NEXT:     with T.block("C"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              C[vi, vj] = B[vi // 4, vj, vi % 4] + T.float32(1.0)
def steps(sch):
    sch.transform_layout("B", "B", lambda i, j: (i // 4, j, i % 4), pad_value=0.0)


# REFUSED: error: transform_layout: the transformation T.index_map(lambda i, j: (i // 4, j, i % 4,)) of buffer `B` of shape (6, 10) would introduce padding wherever axis0 == 1 and 2 <= axis2 is true; the new shape is (2, 10, 4). Hint: give a `pad_value`
def refused(sch):
    sch.transform_layout("B", "B", lambda i, j: (i // 4, j, i % 4))
