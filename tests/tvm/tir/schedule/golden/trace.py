"""A trace as Python code that replays on an equal PrimFunc."""

# RUN: python -m tests.tvm.tir.schedule.apply %s --style trace | filecheck %s

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
# CHECK-NEXT:   v3, v4 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, decision=[3, 2])
# CHECK-NEXT:   l5, l6 = sch.split(loop=l2, factors=[v3, v4], preserve_unit_iters=True, disable_predication=False)
# CHECK-NEXT:   sch.reorder(l5, l1, l6)
# CHECK-NEXT:   b7 = sch.rfactor(loop=l5, factor_axis=0)
def steps(sch):
    i, k = sch.get_loops("B")
    outer, inner = sch.split(k, sch.sample_perfect_tile(k, 2, decision=[3, 2]))
    sch.reorder(outer, i, inner)
    sch.rfactor(outer, 0)
