"""Buffers with views that move to another storage scope."""

import pytest

from relax_mlir.tvm.script import tir as T  # noqa: N812
from relax_mlir.tvm.tir import Schedule


@T.prim_func
def twice(a: T.Buffer((6, 10), "float32"), c: T.Buffer((6, 10), "float32")):
    b = T.alloc_buffer((6, 10))
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            written = T.match_buffer(b[vi, vj], [], offset_factor=1)
            written[()] = a[vi, vj] * 2.0
    for i, j in T.grid(6, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            read = T.match_buffer(b[vi, vj], [], offset_factor=1)
            c[vi, vj] = read[()] + 1.0


@pytest.mark.parametrize(("scope", "back"), [("shared", "global"), ("local", "shared")])
def test_views_move_with_their_buffer(scope: str, back: str) -> None:
    schedule = Schedule(twice)

    schedule.set_scope("B", 0, scope)

    moved = schedule.mod["main"].script()
    assert moved.count(f'scope="{scope}"') == 3  # the buffer and two views

    schedule.set_scope("B", 0, back)

    expected = 0 if back == "global" else 3
    assert schedule.mod["main"].script().count(f'scope="{back}"') == expected
