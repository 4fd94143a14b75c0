"""The axes of a matmul are padded to multiples; operands are padded with 0."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(
    A: T.Buffer((6, 5), "float32"),
    B: T.Buffer((5, 8), "float32"),
    C: T.Buffer((6, 8), "float32"),
):
    for i, j, k in T.grid(6, 8, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


# CHECK:      A_pad = T.alloc_buffer((8, 8))
# CHECK-NEXT: B_pad = T.alloc_buffer((8, 8))
# CHECK-NEXT: C_pad = T.alloc_buffer((8, 8))
# CHECK-NEXT: for i0, i1 in T.grid(8, 8):
# CHECK-NEXT:     with T.block("A_pad"):
# CHECK-NEXT:         v0, v1 = T.axis.remap("SS", [i0, i1])
# CHECK:              A_pad[v0, v1] = T.if_then_else(v0 < 6 and v1 < 5, A[v0, v1], T.float32(0.0))
# CHECK-NEXT: for i0, i1 in T.grid(8, 8):
# CHECK-NEXT:     with T.block("B_pad"):
# CHECK-NEXT:         v0, v1 = T.axis.remap("SS", [i0, i1])
# CHECK:              B_pad[v0, v1] = T.if_then_else(v0 < 5, B[v0, v1], T.float32(0.0))
# CHECK-NEXT: for i, j, k in T.grid(8, 8, 8):
# CHECK-NEXT:     with T.block("C"):
# CHECK-NEXT:         vi, vj, vk = T.axis.remap("SSR", [i, j, k])
# CHECK:              with T.init():
# CHECK-NEXT:             C_pad[vi, vj] = T.float32(0.0)
# CHECK-NEXT:         C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
# CHECK-NEXT: for i0, i1 in T.grid(6, 8):
# CHECK-NEXT:     with T.block("C_pad"):
# CHECK-NEXT:         v0, v1 = T.axis.remap("SS", [i0, i1])
# CHECK:              C[v0, v1] = C_pad[v0, v1]
def steps(sch):
    sch.pad_einsum("C", [4, 1, 4])


# REFUSED: error: pad_einsum: block `C`: expected 3 numbers above 0, got [4, 4]
def refused(sch):
    sch.pad_einsum("C", [4, 4])
