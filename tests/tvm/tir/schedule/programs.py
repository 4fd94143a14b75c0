"""PrimFuncs to schedule."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it

__all__ = [
    "corner",
    "fused_rows",
    "guarded",
    "matmul_relu",
    "mirrored",
    "neighbours",
    "padded",
    "scale_shift",
    "strided_sum",
    "symbolic",
]


@T.prim_func
def scale_shift(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
    B = T.alloc_buffer((12, 10))
    for i, j in T.grid(12, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(12, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def matmul_relu(
    A: T.Buffer((6, 5), "float32"),
    B: T.Buffer((5, 4), "float32"),
    D: T.Buffer((6, 4), "float32"),
):
    C = T.alloc_buffer((6, 4))
    for i, j, k in T.grid(6, 4, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(6, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], 0.0)


@T.prim_func
def strided_sum(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def symbolic(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (3, n))
    B = T.match_buffer(b, (3, n))
    for i, j in T.grid(3, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0


@T.prim_func
def padded(A: T.Buffer((3, 7), "float32"), C: T.Buffer((3, 9), "float32")):
    B = T.alloc_buffer((3, 11))
    for i, j in T.grid(3, 11):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj >= 2 and vj < 9, A[vi, vj - 2], 5.0)
    for i, j, k in T.grid(3, 9, 3):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + B[vi, vj + vk]


@T.prim_func
def mirrored(A: T.Buffer((6, 5), "float32"), C: T.Buffer((5, 6), "float32")):
    B = T.alloc_buffer((6, 5))
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[5 - vi, 4 - vj] = A[vi, vj] * 2.0
    for i, j in T.grid(5, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] + 1.0


@T.prim_func
def corner(A: T.Buffer((8, 9), "float32"), C: T.Buffer((1, 2), "float32")):
    B = T.alloc_buffer((8, 9))
    for i, j in T.grid(8, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(1, 2):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def fused_rows(A: T.Buffer((5, 7), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((5, 7))
    for f in range(35):
        with T.block("B"):
            vi = T.axis.spatial(5, f // 7)
            vj = T.axis.spatial(7, f % 7)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def guarded(A: T.Buffer((8,), "float32"), C: T.Buffer((5,), "float32")):
    B = T.alloc_buffer((5,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            B[vi] = A[vi] * 2.0
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = T.if_then_else(vi < 3, B[vi] + 1.0, 0.0)


@T.prim_func
def neighbours(A: T.Buffer((9,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + B[vi + 1]
