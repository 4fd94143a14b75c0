"""The element type of a buffer is changed."""

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


# CHECK:      B = T.alloc_buffer((6, 10), "float16")
# CHECK-NEXT: for i, j in T.grid(6, 10):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              B[vi, vj] = T.Cast("float16", A[vi, vj] * T.float32(2.0))
# CHECK-NEXT: for i, j in T.grid(6, 10):
# CHECK:          with T.block("C"):
# CHECK-NEXT:         vi, vj = T.axis.remap("SS", [i, j])
# CHECK:              C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1.0)
def steps(sch):
    sch.unsafe_set_dtype("B", 0, "float16")


# REFUSED: error: unsafe_set_dtype: buffer `C` is a parameter: expected one allocated in the function
def refused(sch):
    sch.unsafe_set_dtype("C", 0, "float16")
