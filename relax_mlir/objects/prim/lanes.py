"""Types of vectors, by name: ``float32x4`` has 4 lanes, ``int8xvscalex16`` some."""

from __future__ import annotations

from typing import Any

from relax_mlir.errors import OperatorError, shown
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
    """The type of one lane of a vector type; other types are their own."""
    return dtype.split("x", 1)[0]


def with_lanes(dtype: str, vector: str) -> str:
    """A vector type of ``dtype``, as long as another type is."""
    return element_type(dtype) + vector[len(element_type(vector)) :]


def _count(digits: str, dtype: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"expected an element type, got {shown(dtype)}")
    return int(digits)


def lanes_of(dtype: str) -> PrimExpr:
    """How many lanes a type has."""
    suffix = dtype[len(element_type(dtype)) :].removeprefix("x")
    if not suffix:
        return convert(1)
    if not suffix.startswith("vscale"):
        return convert(_count(suffix, dtype))
    factor = _count(suffix.removeprefix("vscalex"), dtype)
    return Call("int32", "vscale", []) * factor


def lane_count(lanes: Any) -> PrimExpr:
    """How many lanes a vector has, as a term.

    Raises:
        OperatorError: neither a number nor a number times ``vscale()``.
    """
    term = convert(lanes)
    if isinstance(term, IntImm):
        return IntImm("int32", term.value)
    factor = None if isinstance(term, Call) else _vscale_factor(term)
    if factor is not None:
        return Call("int32", "vscale", []) * factor
    raise OperatorError(
        f"`{term}` lanes: expected a number, or a number times `vscale()`"
    )


def is_lane_count(term: PrimExpr) -> bool:
    """Whether a vector may have so many lanes."""
    if isinstance(term, IntImm):
        return True
    return not isinstance(term, Call) and _vscale_factor(term) is not None


def _vscale_factor(lanes: PrimExpr) -> int | None:
    """What ``vscale()`` is multiplied by."""
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
    """The type of a vector of so many lanes; of one lane, the element's own."""
    if isinstance(lanes, IntImm):
        return element if lanes.value == 1 else f"{element}x{lanes.value}"
    return f"{element}xvscalex{_vscale_factor(lanes)}"
