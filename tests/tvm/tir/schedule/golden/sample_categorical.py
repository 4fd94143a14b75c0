"""A categorical sample, and a perfect tile of the rest of an extent."""

# RUN: python -m tests.tvm.tir.schedule.apply %s --style trace | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED
# RUN: python -m tests.tvm.tir.schedule.apply %s too_few | filecheck %s --check-prefix=FEW

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:        b0 = sch.get_sblock(name="B", func_name="main")
# CHECK-NEXT:   l1, l2 = sch.get_loops(block=b0)
# CHECK-NEXT:   v3 = sch.sample_categorical(candidates=[1, 2, 4], probs=[0.25, 0.5, 0.25], decision=2)
# CHECK-NEXT:   sch.annotate(block_or_loop=l1, ann_key="pragma_unroll", ann_val=v3)
# CHECK-NEXT:   v4, v5 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, decision=[1, 10])
def steps(sch):
    i, j = sch.get_loops(sch.get_sblock("B"))
    chosen = sch.sample_categorical([1, 2, 4], [0.25, 0.5, 0.25], decision=2)
    sch.annotate(i, "pragma_unroll", chosen)
    sch.split(j, sch.sample_perfect_tile(j, 2, decision=[3, 3]))


# REFUSED: error: sample_categorical: expected a probability of 0 or more for each of 2 candidates, got [0.5]
def refused(sch):
    sch.sample_categorical([1, 2], [0.5])


# FEW: error: sample_perfect_tile: expected at least one factor and one decision for each, got 2 and 1
def too_few(sch):
    i, _ = sch.get_loops(sch.get_sblock("B"))
    sch.sample_perfect_tile(i, 2, decision=[6])
