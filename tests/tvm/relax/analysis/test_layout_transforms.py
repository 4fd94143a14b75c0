"""Layout transforms of blocks and inputs derived from those of outputs."""

from collections.abc import Callable
from typing import Any

import pytest

from relax_mlir.errors import IRError
from relax_mlir.tvm.relax.analysis import suggest_layout_transforms
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule

# ruff: noqa: N803  buffers are called as scripts call them
# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportArgumentType=false


@T.prim_func
def add_bias(
    X: T.Buffer((2, 12, 5), "float32"),
    bias: T.Buffer((12, 5), "float32"),
    Y: T.Buffer((2, 12, 5), "float32"),
):
    for i, j, k in T.grid(2, 12, 5):
        with T.block("add"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            Y[vi, vj, vk] = X[vi, vj, vk] + bias[vj, vk]


def _named(func: Any, *transforms: Callable[..., Any]) -> dict[str, str]:
    """The suggested index maps as text, by block and buffer names."""
    suggested = suggest_layout_transforms(func, transforms)
    return {
        getattr(key, "name_hint", None) or key.name: str(index_map)
        for maps in suggested.values()
        for key, index_map in maps.items()
    }


def test_inputs_and_axes_follow_the_output() -> None:
    found = _named(add_bias, lambda n, c, w: (n, w, c // 4, c % 4))

    assert found == {
        "add": "lambda n, c, w: (n, w, c // 4, c % 4,)",
        "Y": "lambda n, c, w: (n, w, c // 4, c % 4,)",
        "X": "lambda n, c, w: (n, w, c // 4, c % 4,)",
        "bias": "lambda c, w: (w, c // 4, c % 4,)",
    }


def test_axes_that_the_output_lacks_keep_their_positions() -> None:
    @T.prim_func
    def row_sum(X: T.Buffer((6, 7, 8), "float32"), Y: T.Buffer((6, 8), "float32")):
        for i, r, j in T.grid(6, 7, 8):
            with T.block("sum"):
                vi, vr, vj = T.axis.remap("SRS", [i, r, j])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vr, vj]

    found = _named(row_sum, lambda n, c: (n, c // 2, c % 2))

    assert found["sum"] == found["X"] == "lambda n, d, c: (n, d, c // 2, c % 2,)"


def test_a_schedule_applies_the_suggestions() -> None:
    schedule = Schedule(add_bias)

    for block, maps in suggest_layout_transforms(
        add_bias, [lambda n, c, w: (w, n, c)]
    ).items():
        target = schedule.get_block(block.name_hint)
        for key, index_map in maps.items():
            if key is block:
                schedule.transform_block_layout(target, index_map)
            else:
                schedule.transform_layout(target, key, index_map)

    buffers = schedule.mod["main"].buffer_map.values()
    assert [tuple(map(int, b.shape)) for b in buffers] == [
        (5, 2, 12),
        (5, 12),
        (5, 2, 12),
    ]


def test_blocks_that_mix_axes_or_are_not_bijective_stay() -> None:
    @T.prim_func
    def flatten(X: T.Buffer((3, 4), "float32"), Y: T.Buffer((12,), "float32")):
        for i, j in T.grid(3, 4):
            with T.block("flatten"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi * 4 + vj] = X[vi, vj]

    assert _named(flatten, lambda n: (n // 2, n % 2)) == {}
    assert _named(add_bias, lambda n, c, w: (n, c // 5, c % 5, w)) == {}


def test_layouts_have_to_fit_the_buffers() -> None:
    with pytest.raises(IRError, match="`Y` has 3 dimensions, got lambda n, c"):
        suggest_layout_transforms(add_bias, [lambda n, c: (c, n)])
    with pytest.raises(IRError, match="got 4 for 3 parameters"):
        suggest_layout_transforms(add_bias, [lambda n, c, w: (w, n, c)] * 4)
    with pytest.raises(TypeError, match="expected a sequence of an IndexMap or a fun"):
        suggest_layout_transforms(add_bias, [2])
