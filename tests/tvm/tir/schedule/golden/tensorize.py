"""A block is replaced by an intrinsic on sub-regions of its buffers."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T
from relax_mlir.tvm.tir import TensorIntrin


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


@T.prim_func
def copy_row(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("element"):
            vi = T.axis.spatial(5, i)
            B[vi] = A[vi]


@T.prim_func
def copy_pairs(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    B[4] = A[4]
    for i in range(2):
        B[2 * i] = A[2 * i]
        B[2 * i + 1] = A[2 * i + 1]


TensorIntrin.register("golden.copy_row", copy_row, copy_pairs, override=True)


# CHECK:      for i, j_0 in T.grid(6, 2):
# CHECK-NEXT:     with T.block("B_o"):
# CHECK-NEXT:         vi_o, vj_o = T.axis.remap("SS", [i, j_0])
# CHECK:              A_1 = T.match_buffer(A[vi_o, vj_o * 5:vj_o * 5 + 5], (5,))
# CHECK-NEXT:         B_1 = T.match_buffer(B[vi_o, vj_o * 5:vj_o * 5 + 5], (5,))
# CHECK-NEXT:         B_1[4] = A_1[4]
# CHECK-NEXT:         for i_1 in range(2):
# CHECK-NEXT:             B_1[2 * i_1] = A_1[2 * i_1]
# CHECK-NEXT:             B_1[2 * i_1 + 1] = A_1[2 * i_1 + 1]
def steps(sch):
    _, j = sch.get_loops("B")
    _, j_1 = sch.split(j, [None, 5])
    sch.tensorize(j_1, "golden.copy_row")


# REFUSED: error: tensorize: block `B_o`: loop `j_1` has extent 2 from 0: expected 5 from 0
def refused(sch):
    _, j = sch.get_loops("B")
    _, j_1 = sch.split(j, [None, 2])
    sch.tensorize(j_1, "golden.copy_row")
