"""Max and min reductions of integers and booleans across the lanes of a vector."""

import numpy as np
import pytest

from relax_mlir import compile
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.reduce import MaxOp, MinOp
from relax_mlir.testing import case_module

_COUNT = 71  # full vectors and a rest, whatever the width
_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def rows_with_one_other(common: int, other: int, type_: str) -> np.ndarray:
    """Rows of one value with another at a single position: the ends, the middle, none."""
    rows = np.full((4, _COUNT), common, type_)
    for row, place in enumerate((0, 37, _COUNT - 1)):
        rows[row, place] = other
    return rows


@pytest.mark.parametrize("type_", _TYPES)
@pytest.mark.parametrize(("op", "numpy_reduce"), [(MaxOp, np.max), (MinOp, np.min)])
def test_integer_max_and_min(op: type, numpy_reduce: np.ufunc, type_: str) -> None:
    lowest, highest = np.iinfo(type_).min, np.iinfo(type_).max
    reduce = compile(
        case_module(op, Case((4, _COUNT, type_), axis=(1,), keepdims=True))
    )

    for common, other in ((lowest, highest), (highest, lowest), (lowest, lowest + 1)):
        x = rows_with_one_other(common, other, type_)
        np.testing.assert_array_equal(reduce(x)[0], numpy_reduce(x, 1, keepdims=True))


@pytest.mark.parametrize(("op", "numpy_reduce"), [(MaxOp, np.any), (MinOp, np.all)])
def test_any_and_all_of_booleans(op: type, numpy_reduce: np.ufunc) -> None:
    reduce = compile(
        case_module(op, Case((4, _COUNT, "bool"), axis=(1,), keepdims=True))
    )

    for common in (False, True):
        x = rows_with_one_other(common, not common, "bool")
        np.testing.assert_array_equal(reduce(x)[0], numpy_reduce(x, 1, keepdims=True))
