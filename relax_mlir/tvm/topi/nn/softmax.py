"""Softmax and log-softmax."""

from __future__ import annotations

from typing import Any

from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.fast_math import fast_exp
from relax_mlir.tvm.topi.transform import checked_axis

__all__ = ["fast_softmax", "log_softmax", "softmax"]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Softmax along an axis: ``exp(x - max x) / sum exp(x - max x)``."""
    dim = checked_axis(axis, x.ndim, "softmax")
    maximum = _max_along(x, dim)
    exp = te.compute(
        x.shape,
        lambda *i: te.exp(x(*i) - maximum(*_outer_indices(i, dim))),
        "T_softmax_exp",
    )
    return _divide_by_sum(exp, dim, "softmax_output")


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Softmax with the approximate exponential :func:`fast_exp`."""
    dim = checked_axis(axis, x.ndim, "fast_softmax")
    maximum = _max_along(x, dim)
    delta = te.compute(
        x.shape, lambda *i: x(*i) - maximum(*_outer_indices(i, dim)), "T_softmax_delta"
    )
    return _divide_by_sum(fast_exp(delta), dim, "fast_softmax_output")


def _outer_indices(indices: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return indices[:axis] + indices[axis + 1 :]


def _outer_shape(x: Tensor, axis: int) -> tuple[Any, ...]:
    return x.shape[:axis] + x.shape[axis + 1 :]


def _max_along(x: Tensor, axis: int) -> Tensor:
    """Maximum along an axis."""
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    return te.compute(
        _outer_shape(x, axis),
        lambda *i: te.max(x(*i[:axis], k.var, *i[axis:]), axis=k),
        "T_softmax_maxelem",
    )


def _divide_by_sum(exp: Tensor, axis: int, tag: str) -> Tensor:
    """Divide elements by their sum along an axis."""
    k = te.reduce_axis((0, exp.shape[axis]), name="k")
    exp_sum = te.compute(
        _outer_shape(exp, axis),
        lambda *i: te.sum(exp(*i[:axis], k.var, *i[axis:]), axis=k),
        "T_softmax_expsum",
    )
    return te.compute(
        exp.shape,
        lambda *i: exp(*i) / exp_sum(*_outer_indices(i, axis)),
        "T_softmax_norm",
        tag,
        {"axis": axis},
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Log-softmax along an axis."""
    dim = checked_axis(axis, x.ndim, "log_softmax")
    maximum = _max_along(x, dim)
    k = te.reduce_axis((0, x.shape[dim]), name="k")
    exp_sum = te.compute(
        _outer_shape(x, dim),
        lambda *i: te.sum(te.exp(x(*i[:dim], k.var, *i[dim:]) - maximum(*i)), axis=k),
    )

    def element(*i: Any) -> Any:
        outer = _outer_indices(i, dim)
        return x(*i) - maximum(*outer) - te.log(exp_sum(*outer))

    return te.compute(x.shape, element, tag="log_softmax_output", attrs={"axis": dim})
