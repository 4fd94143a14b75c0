"""Script integers as indices: casts are dropped where they preserve every index."""

# Scripts are Python that no type checker knows.
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import numpy as np
import pytest

import relax_mlir
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  what scripts call it
from relax_mlir.tvm.tir import Schedule


def _gathered(index: str, dtype: str) -> PrimFunc:
    return from_source(f"""
@T.prim_func
def main(
    X: T.Buffer((300,), "int32"), P: T.Buffer((300,), "{dtype}"), Y: T.Buffer((300,), "int32")
):
    for i in range(300):
        with T.block("Y"):
            v = T.axis.spatial(300, i)
            Y[v] = X[{index}]
""")


@pytest.mark.parametrize(
    ("index", "dtype", "expected"),
    [
        ('T.Cast("int64", v)', "int32", "v"),
        ('T.Cast("int32", T.Cast("int64", v))', "int32", "v"),
        ('T.Cast("int64", P[v])', "int32", "P[v]"),
        ('T.Cast("int32", P[v])', "uint8", "P[v]"),
        ('T.Cast("int32", P[v])', "int64", 'T.Cast("int32", P[v])'),
        ('T.Cast("int64", P[v])', "uint64", 'T.Cast("int64", P[v])'),
        ('T.Cast("uint8", v)', "int32", 'T.Cast("uint8", v)'),
        ("P[v] + T.uint8(1)", "uint8", "P[v] + T.uint8(1)"),
    ],
)
def test_casts_that_change_an_index_are_kept(
    index: str, dtype: str, expected: str
) -> None:
    func = _gathered(index, dtype)

    text = func.script()

    assert f"Y[v] = X[{expected}]" in text
    assert from_source(text).script() == text


@pytest.mark.parametrize(
    ("index", "dtype"),
    [('T.Cast("uint8", P[v])', "int32"), ("P[v] + T.uint8(1)", "uint8")],
)
def test_integers_of_few_bits_wrap_as_indices(index: str, dtype: str) -> None:
    x, y = np.arange(300, dtype=np.int32), np.empty(300, np.int32)
    places = np.arange(300).astype(dtype)
    step = np.uint8(1 if dtype == "uint8" else 0)

    relax_mlir.compile(_gathered(index, dtype))["main"](x, places, y)

    np.testing.assert_array_equal(y, places.astype(np.uint8) + step)


def test_an_index_that_was_stored_in_a_wide_type_is_inlined_without_casts() -> None:
    @T.prim_func
    def func(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        places = T.alloc_buffer((8,), "int64")
        for i in range(8):
            with T.block("places"):
                v = T.axis.spatial(8, i)
                places[v] = T.Cast("int64", 7 - v)
        for i in range(8):
            with T.block("y"):
                v = T.axis.spatial(8, i)
                y[v] = x[places[v]]

    schedule = Schedule(func)
    schedule.compute_inline("places")

    text = schedule.mod["main"].script()
    assert "y[v] = x[7 - v]" in text
    assert from_source(text).script() == text
