"""A loop and a block are annotated."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      for i in T.serial(6, annotations={"pragma_unroll": 4}):
# CHECK-NEXT:     for j in range(10):
# CHECK-NEXT:         with T.block("B"):
# CHECK-NEXT:             vi, vj = T.axis.remap("SS", [i, j])
# CHECK:                  T.block_attr({"names": ["a", "b"]})
# CHECK-NEXT:             B[vi, vj] = A[vi, vj] * T.float32(2.0)
def steps(sch):
    i, _ = sch.get_loops("B")
    sch.annotate(i, "pragma_unroll", 4)
    sch.annotate(sch.get_block("B"), "names", ["a", "b"])
    sch.annotate(i, "wrong", 1)
    sch.unannotate(i, "wrong")


# REFUSED: error: unannotate: block `B` has no annotation `names`
def refused(sch):
    sch.unannotate(sch.get_block("B"), "names")
