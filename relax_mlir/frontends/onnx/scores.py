"""What classifiers and regressors of ai.onnx.ml do with their scores."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.hooks import OnnxNode
from relax_mlir.dialects.relax.activation import SigmoidOp
from relax_mlir.dialects.relax.arg_reduce import ArgmaxOp
from relax_mlir.dialects.relax.arithmetic import (
    AbsOp,
    AddOp,
    MultiplyOp,
    NegativeOp,
    SignOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.bitwise import LogicalNotOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import EqualOp, LessEqualOp, WhereOp
from relax_mlir.dialects.relax.exponential import LogOp, SqrtOp
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.norm import SoftmaxOp
from relax_mlir.dialects.relax.reduce import SumOp

__all__ = [
    "as_float",
    "both",
    "chosen",
    "labels_of",
    "matrix",
    "number",
    "one_of",
    "transformed",
]

_F32 = dtypes.dtype("float32")
_TINY = 1e-7  # what SOFTMAX_ZERO takes for 0
_WINITZKI = 0.147  # of his approximation of the inverse error function


def one_of(name: str, given: Any, allowed: Sequence[Any]) -> Any:  # Any: str or int
    """An attribute's value.

    Raises:
        ValueError: it is none of those that are allowed.
    """
    if given not in allowed:
        listed = ", ".join(map(str, allowed))
        raise ValueError(f"attribute `{name}`: expected one of {listed}, got {given!r}")
    return given


def number(node: OnnxNode, value: float, like: ir.Value) -> ir.Value:
    """A constant of the element type of another value."""
    return node.constant(np.array(value).astype(tensors.dtype_of(like).numpy))


def as_float(x: ir.Value) -> ir.Value:
    """Numbers as f32, but for floats, which stay what they are."""
    return x if tensors.dtype_of(x).is_float else AstypeOp(x, dtype=_F32).y


def matrix(node: OnnxNode, index: int = 0) -> ir.Value:
    """An operand [n, features] as floats; one of features alone is one row.

    Raises:
        ValueError: it has more axes, or none.
    """
    x = as_float(node.input(index))
    rank = len(tensors.shape_of(x))
    if rank == 1:
        return ReshapeOp(x, shape=(1, *tensors.shape_of(x))).y
    if rank != 2:
        raise ValueError(f"input {index}: expected [n, features], got rank {rank}")
    return x


def transformed(node: OnnxNode, scores: ir.Value, name: str) -> ir.Value:
    """Scores [n, classes] after ``post_transform``.

    Raises:
        ValueError: there is no such transformation.
    """
    return _TRANSFORMS[one_of("post_transform", name, tuple(_TRANSFORMS))](node, scores)


def _softmax_zero(node: OnnxNode, scores: ir.Value) -> ir.Value:
    """The softmax of what is not 0, which stays 0; a half for rows of nothing else."""
    tiny = LessEqualOp(AbsOp(scores).y, number(node, _TINY, scores)).z
    lowest = number(node, -np.inf, scores)
    zero, half = number(node, 0, scores), number(node, 0.5, scores)
    shares = SoftmaxOp(WhereOp(tiny, lowest, scores).z, axis=-1).y
    is_more = AstypeOp(LogicalNotOp(tiny).y, dtype=tensors.dtype_of(scores)).y
    count = SumOp(is_more, axis=(1,), keepdims=True).y
    rest = WhereOp(EqualOp(count, zero).z, half, zero).z
    return WhereOp(tiny, rest, shares).z


def _probit(node: OnnxNode, scores: ir.Value) -> ir.Value:
    """The quantile of the normal distribution.

    Source: Winitzki, A handy approximation for the error function and its inverse, 2008.
    """
    one, two = number(node, 1, scores), number(node, 2, scores)
    x = SubtractOp(MultiplyOp(scores, two).z, one).z
    log = LogOp(MultiplyOp(SubtractOp(one, x).z, AddOp(one, x).z).z).y
    half = MultiplyOp(log, number(node, 0.5, scores)).z
    v = AddOp(half, number(node, 2 / (math.pi * _WINITZKI), scores)).z
    inner = MultiplyOp(log, number(node, 1 / _WINITZKI, scores)).z
    root = SqrtOp(SubtractOp(MultiplyOp(v, v).z, inner).z).y
    size = SqrtOp(SubtractOp(root, v).z).y
    return MultiplyOp(MultiplyOp(SignOp(x).y, size).z, number(node, 2**0.5, scores)).z


_TRANSFORMS: Mapping[str, Callable[[OnnxNode, ir.Value], ir.Value]] = {
    "NONE": lambda node, scores: scores,
    "SOFTMAX": lambda node, scores: SoftmaxOp(scores, axis=-1).y,
    "LOGISTIC": lambda node, scores: SigmoidOp(scores).y,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def both(node: OnnxNode, score: ir.Value, is_probability: bool) -> ir.Value:
    """Scores of two classes [n, 2] from that of the second [n, 1]."""
    other = (
        SubtractOp(number(node, 1, score), score).z
        if is_probability
        else NegativeOp(score).y
    )
    return ConcatOp([other, score], axis=1).y


def labels_of(node: OnnxNode, *names: str) -> np.ndarray:
    """The integer labels of the classes.

    Raises:
        ValueError: there are none.
    """
    for name in names:
        if node.attrs.get(name):
            return np.array(node.attrs[name], np.int64)
    raise ValueError(f"attribute `{names[0]}` is missing")


def chosen(node: OnnxNode, scores: ir.Value, labels: np.ndarray) -> ir.Value:
    """The label of the highest score in every row, the first of equal ones."""
    place = ArgmaxOp(scores, axis=1).y
    if np.array_equal(labels, np.arange(len(labels))):
        return place
    return TakeOp(node.constant(labels), place, axis=0, mode="clip").y
