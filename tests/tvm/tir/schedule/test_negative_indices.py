"""Indices and loop variables that may be negative are not taken for sizes."""

# ruff: noqa: N803, N806, E741  scripts name buffers in capitals

import numpy as np
import pytest

from relax_mlir.tvm.ir import structural_equal
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.evaluate import evaluate


@T.prim_func
def clamped(
    I: T.Buffer((8,), "int32"),
    A: T.Buffer((8,), "float32"),
    C: T.Buffer((8,), "float32"),
):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[T.min(T.max(I[v], 0), 7)]


@T.prim_func
def chosen(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[T.max(T.if_then_else(v < 4, v - 4, v), 0)]


@T.prim_func
def from_below(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2.0
    for i in range(-4, 4):
        with T.block("C"):
            v = T.axis.spatial((-4, 4), i)
            C[v + 4] = B[T.max(v, 0)] + B[T.min(v, 0) + 4]


@T.prim_func
def from_a_size_below(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    B = T.alloc_buffer((n,))
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * 2.0
    for i in range(-n, 0):
        with T.block("C"):
            v = T.axis.spatial(n, i + n)
            C[v] = B[T.max(v - 3, 0)] + B[T.min(-1 - i, 2)]


def _inputs(program):
    """Inputs of a PrimFunc; its symbolic size is 7."""
    random = np.random.default_rng(0)
    buffers = [program.buffer_map[p] for p in program.params]
    shapes = [[getattr(d, "value", 7) for d in b.shape] for b in buffers]
    return [random.integers(-9, 10, shape) for shape in shapes]


_STEPS = {
    "transform_layout": lambda s: s.transform_layout(
        "B", ("write", 0), lambda i: (i // 2, i % 2), pad_value=0.0
    ),
    "transform_block_layout": lambda s: s.transform_block_layout(
        "C", lambda i: (i // 2, i % 2)
    ),
    "compute_at": lambda s: s.compute_at("B", s.get_loops("C")[0]),
    "compute_inline": lambda s: s.compute_inline("B"),
    "cache_read": lambda s: s.cache_read("C", 0, "global"),
    "read_at": lambda s: s.read_at(s.get_loops("C")[0], "C", 0, "global"),
    "blockize": lambda s: s.blockize(s.get_loops("C")[0]),
}
# What no loops from 0 on run through is refused by these.
_REFUSED = {
    (from_below, "transform_block_layout"),
    (from_a_size_below, "transform_block_layout"),
    (from_a_size_below, "blockize"),
}
_PROGRAMS = (clamped, chosen, from_below, from_a_size_below)


@pytest.mark.parametrize(
    ("program", "step"),
    [
        pytest.param(program, step, id=f"{program.attrs['global_symbol']}-{step}")
        for program in _PROGRAMS
        for step in _STEPS
        if (program, step) not in _REFUSED
    ],
)
def test_clamps_are_kept(program, step):
    schedule = Schedule(program)
    arrays = _inputs(program)

    _STEPS[step](schedule)

    found = evaluate(schedule.mod["main"], *arrays)
    np.testing.assert_array_equal(found, evaluate(program, *arrays))


@T.prim_func(private=True)
def greater(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(-4, 4):
        C[i + 4] = A[T.max(i, 0) + 4]


@T.prim_func(private=True)
def plain(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(-4, 4):
        C[i + 4] = A[i + 4]


@T.prim_func(private=True)
def clamped_number(
    n: T.int32, A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i in range(8):
        C[i] = A[T.max(n, 0)]


@T.prim_func(private=True)
def plain_number(
    n: T.int32, A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i in range(8):
        C[i] = A[n]


@pytest.mark.parametrize(
    ("left", "right"), [(greater, plain), (clamped_number, plain_number)]
)
def test_programs_differ_by_a_clamp(left, right):
    assert not structural_equal(left, right)
    assert structural_equal(left, left)
