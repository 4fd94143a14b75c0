"""Vector type names: ``float32x4`` (4 lanes), ``int8xvscalex16`` (scalable)."""

from __future__ import annotations

from typing import Any

from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.objects.prim.calls import Call
from relax_mlir.objects.prim.constants import IntImm, convert
from relax_mlir.objects.prim.expr import PrimExpr

__all__ = [
    "element_type",
    "is_lane_count",
    "lane_count",
    "lanes_of",
    "vector_type",
    "with_lanes",
]


def element_type(dtype: str) -> str:
    """The element type of a vector type; a scalar type is returned as is."""
    return dtype.split("x", 1)[0]


def with_lanes(dtype: str, vector: str) -> str:
    """The vector type of ``dtype`` with the lanes of ``vector``."""
    return element_type(dtype) + vector[len(element_type(vector)) :]


def _count(digits: str, dtype: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"expected an element type, got {short_repr(dtype)}")
    return int(digits)


def lanes_of(dtype: str) -> PrimExpr:
    """The number of lanes of a type."""
    suffix = dtype[len(element_type(dtype)) :].removeprefix("x")
    if not suffix:
        return convert(1)
    if not suffix.startswith("vscale"):
        return convert(_count(suffix, dtype))
    factor = _count(suffix.removeprefix("vscalex"), dtype)
    return Call("int32", "vscale", []) * factor


def lane_count(lanes: Any) -> PrimExpr:
    """A number of lanes as an expression.

    Raises:
        OperatorError: it is neither a constant nor a constant times ``vscale()``.
    """
    expr = convert(lanes)
    if isinstance(expr, IntImm):
        return IntImm("int32", expr.value)
    factor = None if isinstance(expr, Call) else _vscale_factor(expr)
    if factor is not None:
        return Call("int32", "vscale", []) * factor
    raise OperatorError(
        f"`{expr}` lanes: expected a number, or a number times `vscale()`"
    )


def is_lane_count(expr: PrimExpr) -> bool:
    """Whether an expression is a valid number of lanes."""
    if isinstance(expr, IntImm):
        return True
    return not isinstance(expr, Call) and _vscale_factor(expr) is not None


def _vscale_factor(lanes: PrimExpr) -> int | None:
    """The constant factor of ``vscale()``."""
    from relax_mlir.objects.prim.operations import (
        Mul,  # its operands are matched, lane by lane
    )

    if isinstance(lanes, Mul):
        for number, scale in ((lanes.a, lanes.b), (lanes.b, lanes.a)):
            is_scale = isinstance(scale, Call) and scale.op_name == "vscale"
            if is_scale and isinstance(number, IntImm):
                return number.value
    is_scale = isinstance(lanes, Call) and lanes.op_name == "vscale"
    return 1 if is_scale else None


def vector_type(element: str, lanes: PrimExpr) -> str:
    """The vector type with ``lanes`` lanes; the element type for one lane."""
    if isinstance(lanes, IntImm):
        return element if lanes.value == 1 else f"{element}x{lanes.value}"
    return f"{element}xvscalex{_vscale_factor(lanes)}"
