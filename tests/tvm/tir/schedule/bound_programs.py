"""PrimFuncs with thread-bound loops."""

# ruff: noqa: N803, N806, E741  scripts name buffers in capitals

from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it

__all__ = [
    "all_rows",
    "argmax",
    "beside_blocks",
    "between_blocks",
    "differences",
    "doubled_maximum",
    "early_start",
    "foreign_memory",
    "grid3",
    "grid_in_turns",
    "in_a_condition",
    "kept_between_turns",
    "kept_in_memory",
    "no_start",
    "outside_of_threads",
    "register_tiles",
    "row_sums",
    "rows_twice",
    "softmax",
    "sum_over_blocks",
    "symbolic",
    "synchronized",
    "synchronized_globally",
    "through_memory",
    "tiled",
    "too_many",
    "two_launches",
    "two_values",
    "uneven_axes",
    "uneven_turns",
    "unknown_threads",
    "until_found",
    "vthreads",
]


@T.prim_func
def tiled(
    A: T.Buffer((37, 21), "float32"),
    B: T.Buffer((21, 19), "float32"),
    C: T.Buffer((37, 19), "float32"),
):
    SA = T.alloc_buffer((40, 24), scope="shared")
    SB = T.alloc_buffer((24, 24), scope="shared")
    L = T.alloc_buffer((40, 24), scope="local")
    for by in T.thread_binding(5, thread="blockIdx.y"):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("init"):
                        vi = T.axis.spatial(40, by * 8 + ty)
                        vj = T.axis.spatial(24, bx * 8 + tx)
                        L[vi, vj] = 0.0
                    for ko in range(3):
                        with T.block("SA"):
                            vi = T.axis.spatial(40, by * 8 + ty)
                            vk = T.axis.spatial(24, ko * 8 + tx)
                            SA[vi, vk] = T.if_then_else(
                                vi < 37 and vk < 21, A[vi, vk], 0.0
                            )
                        with T.block("SB"):
                            vk = T.axis.spatial(24, ko * 8 + ty)
                            vj = T.axis.spatial(24, bx * 8 + tx)
                            SB[vk, vj] = T.if_then_else(
                                vk < 21 and vj < 19, B[vk, vj], 0.0
                            )
                        for ki in range(8):
                            with T.block("update"):
                                vi = T.axis.spatial(40, by * 8 + ty)
                                vj = T.axis.spatial(24, bx * 8 + tx)
                                vk = T.axis.reduce(24, ko * 8 + ki)
                                L[vi, vj] = L[vi, vj] + SA[vi, vk] * SB[vk, vj]
                    with T.block("C"):
                        vi = T.axis.spatial(37, by * 8 + ty)
                        vj = T.axis.spatial(19, bx * 8 + tx)
                        T.where(by * 8 + ty < 37 and bx * 8 + tx < 19)
                        C[vi, vj] = L[vi, vj]


@T.prim_func
def row_sums(A: T.Buffer((5, 77), "float32"), B: T.Buffer((5,), "float32")):
    for i in T.thread_binding(5, thread="blockIdx.x"):
        for ko in range(3):
            for ki in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(5, i)
                    vk = T.axis.reduce(77, ko * 32 + ki)
                    T.where(ko * 32 + ki < 77)
                    with T.init():
                        B[vi] = 0.0
                    B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def softmax(A: T.Buffer((5, 50), "float32"), D: T.Buffer((5, 50), "float32")):
    M = T.alloc_buffer((5,), scope="local")
    S = T.alloc_buffer((5,), scope="shared")
    for i in T.thread_binding(5, thread="blockIdx.x"):
        for k in T.thread_binding(50, thread="threadIdx.x"):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], A[vi, vk])
        for ko in range(2):
            for ki in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("S"):
                    vi = T.axis.spatial(5, i)
                    vk = T.axis.reduce(50, ko * 32 + ki)
                    T.where(ko * 32 + ki < 50)
                    with T.init():
                        S[vi] = 0.0
                    S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
        for k in T.thread_binding(50, thread="threadIdx.x"):
            with T.block("D"):
                vi, vk = T.axis.remap("SS", [i, k])
                D[vi, vk] = T.exp(A[vi, vk] - M[vi]) / S[vi]


@T.prim_func
def argmax(
    A: T.Buffer((4, 30), "float32"),
    V: T.Buffer((4,), "float32"),
    I: T.Buffer((4,), "int32"),
):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for ty in T.thread_binding(3, thread="threadIdx.y"):
            for tx in T.thread_binding(10, thread="threadIdx.x"):
                with T.block("V"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(30, ty * 10 + tx)
                    with T.init():
                        I[vi] = -1
                        V[vi] = T.min_value("float32")
                    v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
                    v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
                    I[vi] = v_i
                    V[vi] = v_v


@T.prim_func
def grid3(A: T.Buffer((3, 4, 5, 6), "float32"), B: T.Buffer((6, 5, 4, 3), "float32")):
    for bz in T.thread_binding(3, thread="blockIdx.z"):
        for by in T.thread_binding(2, thread="blockIdx.y"):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for tz in T.thread_binding(2, thread="threadIdx.z"):
                    for ty in T.thread_binding(5, thread="threadIdx.y"):
                        for tx in T.thread_binding(3, thread="threadIdx.x"):
                            with T.block("B"):
                                v0 = T.axis.spatial(3, bz)
                                v1 = T.axis.spatial(4, by * 2 + tz)
                                v2 = T.axis.spatial(5, ty)
                                v3 = T.axis.spatial(6, bx * 3 + tx)
                                B[v3, v2, v1, v0] = A[v0, v1, v2, v3] * 2.0


@T.prim_func
def two_launches(A: T.Buffer((40,), "float32"), C: T.Buffer((40,), "float32")):
    B = T.alloc_buffer((40,))
    for i in T.thread_binding(5, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(40, i * 8 + j)
                B[v] = A[v] + 1.0
    for j in T.thread_binding(40, thread="threadIdx.x"):
        with T.block("C"):
            v = T.axis.spatial(40, j)
            C[v] = B[39 - v]


@T.prim_func
def vthreads(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    S = T.alloc_buffer((32,), scope="shared")
    for i in T.thread_binding(2, thread="blockIdx.x"):
        for v in T.thread_binding(2, thread="vthread.x"):
            for j in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("S"):
                    vi = T.axis.spatial(32, i * 16 + v * 8 + j)
                    S[vi] = A[vi]
            for j in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("C"):
                    vi = T.axis.spatial(32, i * 16 + v * 8 + j)
                    C[vi] = S[i * 16 + v * 8 + 7 - j]


@T.prim_func
def outside_of_threads(
    A: T.Buffer((4, 8), "float32"),
    C: T.Buffer((4,), "float32"),
    D: T.Buffer((4, 8), "float32"),
):
    S = T.alloc_buffer((4,), scope="shared")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        with T.block("S"):
            vi = T.axis.spatial(4, i)
            S[vi] = A[vi, 0] * 2.0
        for j in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = S[vi] + A[vi, vj]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = S[vi]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 6))
    B = T.match_buffer(b, (n, 6))
    for i in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for j, k in T.grid(T.int64(4), T.int64(6)):
            with T.block("B"):
                vi = T.axis.spatial(n, i * 4 + j)
                vk = T.axis.spatial(T.int64(6), k)
                T.where(i * 4 + j < n)
                B[vi, vk] = A[vi, vk] + 1.0


@T.prim_func
def synchronized(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8,), scope="shared.dyn")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        S[i] = A[i]
        T.tvm_storage_sync("shared")
        B[i] = S[7 - i]


@T.prim_func
def synchronized_globally(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, thread="blockIdx.x"):
        T.tvm_storage_sync("global")
        B[i] = A[7 - i]


@T.prim_func
def in_a_condition(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    S = T.alloc_buffer((12,), scope="shared")
    for i in T.thread_binding(2, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            if j < 6:
                for k in range(2):
                    S[i * 6 + j] = A[i * 6 + j] + T.Cast("float32", k)
                    B[i * 6 + j] = S[i * 6 + 5 - j]
            else:
                S[i * 6 + j - 6] = 0.0


@T.prim_func
def rows_twice(A: T.Buffer((3, 4, 20), "float32"), B: T.Buffer((3, 4), "float32")):
    L = T.alloc_buffer((3, 4), scope="local")
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for j in range(4):
            for k in T.thread_binding(20, thread="threadIdx.x"):
                with T.block("L"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        L[vi, vj] = 0.0
                    L[vi, vj] = L[vi, vj] + A[vi, vj, vk]
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = L[vi, vj]


@T.prim_func
def register_tiles(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    L = T.alloc_buffer((6, 8), scope="local")
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for j in T.thread_binding(2, thread="threadIdx.x"):
            for a, b in T.grid(2, 4):
                L[i * 2 + a, j * 4 + b] = 0.0
            for k in range(3):
                for a, b in T.grid(2, 4):
                    L[i * 2 + a, j * 4 + b] += A[i * 2 + a, j * 4 + b] * T.Cast(
                        "float32", k
                    )
            for a in range(2):
                for b in T.vectorized(4):
                    B[i * 2 + a, j * 4 + b] = L[i * 2 + a, j * 4 + b]


@T.prim_func
def kept_between_turns(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    L = T.alloc_buffer((9, 4), scope="local")
    for j in T.thread_binding(4, thread="threadIdx.x"):
        L[0, j] = 0.0
        for k in range(8):
            L[k + 1, j] = L[k, j] + A[k, j]
            B[k, j] = L[k + 1, j]


@T.prim_func
def too_many(A: T.Buffer((2048,), "float32")):
    for i in T.thread_binding(2048, thread="threadIdx.x"):
        A[i] = 0.0


@T.prim_func
def unknown_threads(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in T.thread_binding(n, thread="threadIdx.x"):
        B[i] = A[i]


@T.prim_func
def sum_over_blocks(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in T.thread_binding(8, thread="blockIdx.x"):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            with T.init():
                B[0] = 0.0
            B[0] = B[0] + A[vk]


@T.prim_func
def grid_in_turns(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for k in range(3):
        for i in T.thread_binding(8, thread="blockIdx.x"):
            B[i] = A[i] + T.Cast("float32", k)


@T.prim_func
def uneven_axes(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((32,), scope="shared")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for y in T.thread_binding(4, thread="threadIdx.y"):
            for x in T.thread_binding(8, thread="threadIdx.x"):
                C[y * 8 + x] = A[i, (y * 8 + x) % 6]
        for y in T.thread_binding(2, thread="threadIdx.y"):
            for x in T.thread_binding(3, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(6, y * 3 + x)
                    with T.init():
                        B[vi] = 0.0
                    B[vi] = B[vi] + C[vk]


@T.prim_func
def no_start(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            B[0] = B[0] + A[vk]


@T.prim_func
def all_rows(A: T.Buffer((4, 8), "bool"), B: T.Buffer((4,), "bool")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.bool(True)
                B[vi] = B[vi] and A[vi, vk]


@T.prim_func
def differences(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] - A[vi, vk]


@T.prim_func
def early_start(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 5.0
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def doubled_maximum(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.min_value("float32")
                B[vi] = T.Select(B[vi] * 2.0 >= A[vi, vk], B[vi], A[vi, vk])


@T.prim_func
def two_values(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            with T.init():
                B[0] = 0.0
            B[0] = B[0] * A[vk] + A[7 - vk]


@T.prim_func
def uneven_turns(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8,), scope="shared")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(i):
            S[i] = A[k]
            B[i] = S[7 - i]


@T.prim_func
def until_found(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8,), scope="shared")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        S[i] = A[i]
        while S[7 - i] < 1.0:
            S[i] = S[i] + 1.0
        B[i] = S[i]


@T.prim_func
def foreign_memory(A: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8,), scope="wmma.accumulator")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        S[i] = 0.0
        A[i] = S[i]


@T.prim_func
def through_memory(
    A: T.Buffer((4, 8), "float32"),
    B: T.Buffer((4, 8), "float32"),
    C: T.Buffer((4, 8), "float32"),
):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            B[i, j] = A[i, j] + 1.0
        for j in T.thread_binding(8, thread="threadIdx.x"):
            C[i, j] = B[i, 7 - j]


@T.prim_func
def kept_in_memory(A: T.Buffer((4, 32), "float32"), B: T.Buffer((128,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(4):
                B[i * 32 + j * 4 + k] = A[i, j * 4 + k]
            for k in range(4):
                B[i * 32 + j * 4 + k] = B[i * 32 + j * 4 + 3 - k] + 1.0


@T.prim_func
def between_blocks(
    A: T.Buffer((4,), "float32"),
    B: T.Buffer((4,), "float32"),
    C: T.Buffer((4,), "float32"),
):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        B[i] = A[i]
        C[i] = B[3 - i]


@T.prim_func
def beside_blocks(
    A: T.Buffer((8,), "float32"),
    B: T.Buffer((1,), "float32"),
    C: T.Buffer((8,), "float32"),
):
    L = T.alloc_buffer((1,), scope="local")
    L[0] = A[0] * 2.0
    B[0] = L[0]
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(2, thread="threadIdx.x"):
            C[i * 2 + j] = L[0] + A[i * 2 + j]
