"""Sampled factors of an extent, the inner ones a multiple of 4 together."""

# RUN: python -m tests.tvm.tir.schedule.apply %s --style trace | filecheck %s
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


# CHECK:        b0 = sch.get_block(name="B", func_name="main")
# CHECK-NEXT:   l1, l2 = sch.get_loops(block=b0)
# CHECK-NEXT:   v3, v4, v5 = sch.sample_partitioned_tile(loop=l1, n=3, partition_pos=1, innerpart_factor=2, decision=[2, 1, 2])
# CHECK-NEXT:   l6, l7, l8 = sch.split(loop=l1, factors=[v3, v4, v5], preserve_unit_iters=True, disable_predication=False)
# CHECK-NEXT:   sch.enter_postproc()
# CHECK-NEXT:   b9 = sch.get_block(name="B", func_name="main")
# CHECK-NEXT:   l10, l11, l12, l13 = sch.get_loops(block=b9)
# CHECK-NEXT:   sch.parallel(loop=l10)
def steps(sch):
    i, _ = sch.get_loops("B")
    sch.split(i, sch.sample_partitioned_tile(i, 3, 1, 2, decision=[2, 1, 2]))
    sch.enter_postproc()
    sch.parallel(sch.get_loops("B")[0])


# REFUSED: error: sample_partitioned_tile: expected a position from 0 to 3 and a factor above 0, got 4 and 2
def refused(sch):
    sch.sample_partitioned_tile(sch.get_loops("B")[0], 3, 4, 2)
