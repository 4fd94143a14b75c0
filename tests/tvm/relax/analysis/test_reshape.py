"""Tensor programs that only reshape their input."""

import pytest

from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.relax.analysis import has_reshape_pattern
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it

# ruff: noqa: N803, N806  buffers are called as scripts call them
# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportArgumentType=false


@T.prim_func
def to_matrix(a: T.Buffer((1, 2, 3, 4), "float32"), b: T.Buffer((8, 3), "float32")):
    for i0, i1 in T.grid(8, 3):
        with T.block("r"):
            x, y = T.axis.remap("SS", [i0, i1])
            b[x, y] = a[
                (x * 3 + y) // 24,
                (x * 3 + y) % 24 // 12,
                (x * 3 + y) % 12 // 4,
                (x * 3 + y) % 4,
            ]


@T.prim_func
def scheduled(a: T.Buffer((1, 2, 3, 4), "float32"), b: T.Buffer((8, 3), "float32")):
    for i0 in T.thread_binding(1, thread="blockIdx.x"):
        for i1 in T.thread_binding(24, thread="threadIdx.x"):
            with T.block("r"):
                x = T.axis.spatial(8, (i0 * 24 + i1) // 3)
                y = T.axis.spatial(3, (i0 * 24 + i1) % 3)
                b[x, y] = a[
                    (x * 3 + y) // 24,
                    (x * 3 + y) % 24 // 12,
                    (x * 3 + y) % 12 // 4,
                    (x * 3 + y) % 4,
                ]


@T.prim_func
def expand_dims(
    a: T.Buffer((2, 3, 4), "float32"), b: T.Buffer((2, 1, 1, 3, 1, 4, 1), "float32")
):
    for i in T.grid(2, 1, 1, 3, 1, 4, 1):
        with T.block("r"):
            p, q, r, s, t, u, v = T.axis.remap("SSSSSSS", [*i])
            b[p, q, r, s, t, u, v] = a[p, s, u]


@T.prim_func
def leading_axis(va: T.handle, vb: T.handle):
    n = T.int64()
    A = T.match_buffer(va, (n, T.int64(32), T.int64(128)), "float16")
    B = T.match_buffer(vb, (T.int64(1), n, T.int64(32), T.int64(128)), "float16")
    for ax0, ax1, ax2, ax3 in T.grid(T.int64(1), n, T.int64(32), T.int64(128)):
        with T.block("r"):
            v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            B[v0, v1, v2, v3] = A[
                ((v3 // T.int64(128) + v2) // T.int64(32) + v0 * n + v1) % n,
                (v3 // T.int64(128) + v2) % T.int64(32),
                v3 % T.int64(128),
            ]


@T.prim_func
def split_last(va: T.handle, vb: T.handle):
    n = T.int64()
    A = T.match_buffer(va, (T.int64(1), n, T.int64(4096)), "float16")
    B = T.match_buffer(vb, (T.int64(1), n, T.int64(32), T.int64(128)), "float16")
    for ax0, ax1, ax2, ax3 in T.grid(T.int64(1), n, T.int64(32), T.int64(128)):
        with T.block("r"):
            v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
            B[v0, v1, v2, v3] = A[
                T.int64(0),
                ((v2 * T.int64(128) + v3) // T.int64(4096) + v0 * n + v1) % n,
                (v2 * T.int64(128) + v3) % T.int64(4096),
            ]


@T.prim_func
def merge_last(va: T.handle, vb: T.handle):
    n = T.int64()
    A = T.match_buffer(va, (T.int64(1), n, T.int64(32), T.int64(128)), "float16")
    B = T.match_buffer(vb, (T.int64(1), n, T.int64(4096)), "float16")
    for ax0, ax1, ax2 in T.grid(T.int64(1), n, T.int64(4096)):
        with T.block("r"):
            v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
            B[v0, v1, v2] = A[
                T.int64(0),
                (v2 // T.int64(4096) + v0 * n + v1) % n,
                v2 % T.int64(4096) // T.int64(128),
                v2 % T.int64(128),
            ]


@T.prim_func
def ragged(
    A: T.Buffer((100, 768), "float32"),
    p: T.Buffer((9,), "int32"),
    B: T.Buffer((100, 12, 64), "float32"),
):
    for b in T.serial(8):
        with T.block("o"):
            vb = T.axis.spatial(8, b)
            for i in T.serial(p[vb + 1] - p[vb]):
                for head in T.serial(12):
                    for f in T.serial(64):
                        with T.block("i"):
                            vi, vh, vf = T.axis.remap("SSS", [i, head, f])
                            B[p[vb] + vi, vh, vf] = A[p[vb] + vi, vh * 64 + vf]


@T.prim_func
def transpose(a: T.Buffer((4, 5), "float32"), b: T.Buffer((5, 4), "float32")):
    for i, j in T.grid(5, 4):
        with T.block("r"):
            x, y = T.axis.remap("SS", [i, j])
            b[x, y] = a[y, x]


@T.prim_func
def reduction(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("r"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                b[x] = T.float32(0)
            b[x] = b[x] + a[x, y]


@T.prim_func
def two_steps(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32")):
    c = T.alloc_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        with T.block("r"):
            x, y = T.axis.remap("SS", [i, j])
            c[x, y] = a[x, y]
    for i, j in T.grid(4, 4):
        with T.block("r"):
            x, y = T.axis.remap("SS", [i, j])
            b[x, y] = c[x, y]


@pytest.mark.parametrize(
    "program",
    [to_matrix, scheduled, expand_dims, leading_axis, split_last, merge_last, ragged],
    ids=lambda program: program.name,
)
def test_a_reshape_is_recognised(program: PrimFunc) -> None:
    assert has_reshape_pattern(program)


@pytest.mark.parametrize(
    "program", [transpose, reduction, two_steps], ids=lambda program: program.name
)
def test_programs_that_move_or_compute_are_no_reshapes(program: PrimFunc) -> None:
    assert not has_reshape_pattern(program)
