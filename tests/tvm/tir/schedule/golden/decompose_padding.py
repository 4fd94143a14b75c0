"""A padding block becomes a fill and a copy."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((3, 7), "float32"), B: T.Buffer((3, 11), "float32")):
    for i, j in T.grid(3, 11):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj >= 2 and vj < 9, A[vi, vj - 2], 0.0)


# CHECK:      for i in range(3):
# CHECK-NEXT:     for j in range(11):
# CHECK-NEXT:         with T.block("B_pad_const"):
# CHECK-NEXT:             vi, vj = T.axis.remap("SS", [i, j])
# CHECK:                  B[vi, vj] = T.float32(0.0)
# CHECK-NEXT:     for j in range(7):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi, vj = T.axis.remap("SS", [i, j])
# CHECK:                  B[vi, vj + 2] = A[vi, vj]
def steps(sch):
    sch.decompose_padding("B", sch.get_loops("B")[1])


# REFUSED: error: decompose_padding: block `B` is not a complete block: expected that no other block of its scope writes what it writes
def refused(sch):
    sch.decompose_padding("B", sch.get_loops("B")[1])
    sch.decompose_padding("B", sch.get_loops("B")[1])
