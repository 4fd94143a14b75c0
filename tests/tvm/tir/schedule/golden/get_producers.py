"""Producers and consumers of blocks."""

# RUN: python -m tests.tvm.tir.schedule.apply %s --style trace | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED
# RUN: python -m tests.tvm.tir.schedule.apply %s of_the_root | filecheck %s --check-prefix=ROOT
# RUN: python -m tests.tvm.tir.schedule.apply %s of_what_is_gone | filecheck %s --check-prefix=GONE
# RUN: python -m tests.tvm.tir.schedule.apply %s outputs_of_what_is_gone | filecheck %s --check-prefix=NONE

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


# CHECK:        b0 = sch.get_block(name="C", func_name="main")
# CHECK-NEXT:   b1, = sch.get_producers(block=b0)
# CHECK-NEXT:   sch.annotate(block_or_loop=b1, ann_key="made_for", ann_val="C")
# CHECK-NEXT:   b2 = sch.get_block(name="B", func_name="main")
# CHECK-NEXT:   b3, = sch.get_consumers(block=b2)
# CHECK-NEXT:   sch.annotate(block_or_loop=b3, ann_key="reads", ann_val="B")
# CHECK-NEXT:   b4 = sch.get_block(name="root", func_name="main")
# CHECK-NEXT:   b5, = sch.get_output_blocks(scope_block=b4)
# CHECK-NEXT:   sch.annotate(block_or_loop=b5, ann_key="output", ann_val=1)
# CHECK-NEXT:   b6 = sch.get_block(name="root", func_name="main")
# CHECK-NEXT:   b7, b8 = sch.get_child_blocks(b6)
# CHECK-NEXT:   sch.annotate(block_or_loop=b8, ann_key="number", ann_val=1)
def steps(sch):
    sch.annotate(sch.get_producers("C")[0], "made_for", "C")
    sch.annotate(sch.get_consumers("B")[0], "reads", "B")
    sch.annotate(sch.get_output_blocks("root")[0], "output", 1)
    sch.annotate(sch.get_child_blocks(sch.get_block("root"))[1], "number", 1)


# REFUSED: error: get_block: function `main`: Cannot find a block with the name: A
def refused(sch):
    sch.get_producers("A")


# ROOT: error: get_consumers: expected a block inside the function, got the root
def of_the_root(sch):
    sch.get_consumers("root")


# GONE: error: schedule: the block no longer exists: expected one that no primitive has removed
def of_what_is_gone(sch):
    block = sch.get_block("B")
    sch.compute_inline(block)
    sch.get_child_blocks(block)


# NONE: error: schedule: the block no longer exists: expected one that no primitive has removed
def outputs_of_what_is_gone(sch):
    block = sch.get_block("B")
    sch.compute_inline(block)
    sch.get_output_blocks(block)
