"""Normalised exponentials."""

from __future__ import annotations

from typing import Any

from relax_mlir import te
from relax_mlir.te import Tensor
from relax_mlir.topi.fast_math import fast_exp
from relax_mlir.topi.transform import checked_axis

__all__ = ["fast_softmax", "log_softmax", "softmax"]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max x) / sum exp(x - max x)`` along an axis."""
    place = checked_axis(axis, x.ndim, "softmax")
    top = _top(x, place)
    exp = te.compute(
        x.shape, lambda *i: te.exp(x(*i) - top(*_outer(i, place))), "T_softmax_exp"
    )
    return _normalized(exp, place, "softmax_output")


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The same with an approximation of the exponential function."""
    place = checked_axis(axis, x.ndim, "fast_softmax")
    top = _top(x, place)
    delta = te.compute(
        x.shape, lambda *i: x(*i) - top(*_outer(i, place)), "T_softmax_delta"
    )
    return _normalized(fast_exp(delta), place, "fast_softmax_output")


def _outer(indices: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return indices[:axis] + indices[axis + 1 :]


def _reduced(x: Tensor, axis: int) -> tuple[Any, ...]:
    return x.shape[:axis] + x.shape[axis + 1 :]


def _top(x: Tensor, axis: int) -> Tensor:
    """The largest element along an axis."""
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    return te.compute(
        _reduced(x, axis),
        lambda *i: te.max(x(*i[:axis], k.var, *i[axis:]), axis=k),
        "T_softmax_maxelem",
    )


def _normalized(exp: Tensor, axis: int, tag: str) -> Tensor:
    """Elements by their sum along an axis."""
    k = te.reduce_axis((0, exp.shape[axis]), name="k")
    total = te.compute(
        _reduced(exp, axis),
        lambda *i: te.sum(exp(*i[:axis], k.var, *i[axis:]), axis=k),
        "T_softmax_expsum",
    )
    return te.compute(
        exp.shape,
        lambda *i: exp(*i) / total(*_outer(i, axis)),
        "T_softmax_norm",
        tag,
        {"axis": axis},
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of the softmax."""
    place = checked_axis(axis, x.ndim, "log_softmax")
    top = _top(x, place)
    k = te.reduce_axis((0, x.shape[place]), name="k")
    total = te.compute(
        _reduced(x, place),
        lambda *i: te.sum(te.exp(x(*i[:place], k.var, *i[place:]) - top(*i)), axis=k),
    )

    def element(*i: Any) -> Any:
        outer = _outer(i, place)
        return x(*i) - top(*outer) - te.log(total(*outer))

    return te.compute(x.shape, element, tag="log_softmax_output", attrs={"axis": place})
