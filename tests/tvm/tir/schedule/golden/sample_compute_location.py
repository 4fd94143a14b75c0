"""A block is computed at a sampled loop, or inlined."""

# RUN: python -m tests.tvm.tir.schedule.apply %s --style trace | filecheck %s
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


# CHECK:        b0 = sch.get_block(name="B", func_name="main")
# CHECK-NEXT:   l1 = sch.sample_compute_location(block=b0, decision=-2)
# CHECK-NEXT:   b2 = sch.get_block(name="B", func_name="main")
# CHECK-NEXT:   sch.compute_at(block=b2, loop=l1, preserve_unit_loops=False, index=-1)
def steps(sch):
    sch.compute_at("B", sch.sample_compute_location("B", decision=-2))


# REFUSED: error: sample_compute_location: block `B`: expected a decision from -2 to 1, got 2
def refused(sch):
    sch.sample_compute_location("B", decision=2)
