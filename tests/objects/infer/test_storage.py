"""Inference of views of a tensor's memory."""

from typing import Any

import pytest

from relax_mlir.errors import OperatorError
from relax_mlir.objects import prim
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.tvm import relax

N = prim.Var("n", "int64")


def _viewed(dtype: str, sizes: Any, /, **asked: Any) -> StructInfo:
    x = relax.Var("x", relax.TensorStructInfo(sizes, dtype))
    call = relax.op.memory.view(x, **asked)
    return relax.BlockBuilder().normalize(call).struct_info


def test_what_is_not_asked_for_stays() -> None:
    assert _viewed("uint8", (6, N)) == relax.TensorStructInfo((6, N), "uint8")
    assert _viewed("int8", (6,), dtype="uint8").dtype == "uint8"  # pyright: ignore[reportAttributeAccessIssue]
    assert _viewed("uint8", None) == relax.TensorStructInfo(dtype="uint8")


def test_a_view_may_have_fewer_elements_of_more_bytes() -> None:
    asked = {"shape": (5,), "dtype": "float16", "relative_byte_offset": 2}

    assert _viewed("uint8", (12,), **asked) == relax.TensorStructInfo((5,), "float16")


def test_sizes_that_may_fit_are_taken() -> None:
    shape = ((N + 3) // 4, 4)

    assert _viewed("", (N,), shape=shape) == relax.TensorStructInfo(shape, "")


@pytest.mark.parametrize(
    ("dtype", "sizes", "asked"),
    [
        ("int8", (6,), {"shape": (7,)}),
        ("int8", (6,), {"dtype": "int16"}),
        ("int8", (6,), {"shape": (4,), "relative_byte_offset": 3}),
        ("", None, {"relative_byte_offset": 3}),
        ("", (N,), {"shape": (N + 1,)}),
        ("", (N,), {"shape": (N // 4 + 1, 4)}),
    ],
)
def test_a_view_does_not_reach_beyond_the_memory(
    dtype: str, sizes: Any, asked: dict[str, Any]
) -> None:
    with pytest.raises(OperatorError, match="reaches beyond"):
        _viewed(dtype, sizes, **asked)


def test_a_view_has_a_shape_and_an_element_type() -> None:
    with pytest.raises(OperatorError, match="expected a shape"):
        _viewed("int8", (6,), shape=relax.PrimValue(6))
    with pytest.raises(OperatorError, match="expected an element type"):
        _viewed("int8", (6,), dtype="void")
