"""Labels and score transformations of the classifiers and regressors of ai.onnx.ml."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import OnnxNode
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
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.exp_log import LogOp, SqrtOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.reduce import SumOp
from relax_mlir.dialects.relax.softmax import SoftmaxOp

__all__ = [
    "as_float",
    "binary_scores",
    "check_choice",
    "feature_matrix",
    "labels_of",
    "post_transformed",
    "predicted_labels",
    "scalar_like",
]

_F32 = dtypes.dtype("float32")
_TINY = 1e-7  # SOFTMAX_ZERO treats smaller scores as 0
_WINITZKI = 0.147  # constant of Winitzki's approximation of the inverse error function


def check_choice(
    name: str, given: Any, allowed: Sequence[Any]
) -> Any:  # Any: str or int
    """An attribute value, checked against the allowed ones.

    Raises:
        ValueError: it is not allowed.
    """
    if given not in allowed:
        listed = ", ".join(map(str, allowed))
        raise ValueError(f"attribute `{name}`: expected one of {listed}, got {given!r}")
    return given


def scalar_like(node: OnnxNode, value: float, like: ir.Value) -> ir.Value:
    """A scalar constant of the element type of ``like``."""
    return node.constant(np.array(value).astype(tensors.dtype_of(like).numpy))


def as_float(x: ir.Value) -> ir.Value:
    """Integers as f32; floats unchanged."""
    return x if tensors.dtype_of(x).is_float else AstypeOp(x, dtype=_F32).y


def feature_matrix(node: OnnxNode, index: int = 0) -> ir.Value:
    """An operand [n, features] as floats; a vector becomes one row.

    Raises:
        ValueError: the rank is neither 1 nor 2.
    """
    x = as_float(node.input(index))
    rank = len(tensors.shape_of(x))
    if rank == 1:
        return ReshapeOp(x, shape=(1, *tensors.shape_of(x))).y
    if rank != 2:
        raise ValueError(f"input {index}: expected [n, features], got rank {rank}")
    return x


def post_transformed(node: OnnxNode, scores: ir.Value, name: str) -> ir.Value:
    """Scores [n, classes] after ``post_transform``.

    Raises:
        ValueError: the transformation is unknown.
    """
    return _TRANSFORMS[check_choice("post_transform", name, tuple(_TRANSFORMS))](
        node, scores
    )


def _softmax_zero(node: OnnxNode, scores: ir.Value) -> ir.Value:
    """Softmax over nonzero scores; zeros stay 0, but all-zero rows become 0.5."""
    tiny = LessEqualOp(AbsOp(scores).y, scalar_like(node, _TINY, scores)).z
    hidden = scalar_like(node, -np.inf, scores)
    zero, half = scalar_like(node, 0, scores), scalar_like(node, 0.5, scores)
    shares = SoftmaxOp(WhereOp(tiny, hidden, scores).z, axis=-1).y
    nonzero = AstypeOp(LogicalNotOp(tiny).y, dtype=tensors.dtype_of(scores)).y
    count = SumOp(nonzero, axis=(1,), keepdims=True).y
    rest = WhereOp(EqualOp(count, zero).z, half, zero).z
    return WhereOp(tiny, rest, shares).z


def _probit(node: OnnxNode, scores: ir.Value) -> ir.Value:
    """Probit: the quantile function of the normal distribution.

    Source: Winitzki, A handy approximation for the error function and its inverse, 2008.
    """
    one, two = scalar_like(node, 1, scores), scalar_like(node, 2, scores)
    x = SubtractOp(MultiplyOp(scores, two).z, one).z
    log = LogOp(MultiplyOp(SubtractOp(one, x).z, AddOp(one, x).z).z).y
    half = MultiplyOp(log, scalar_like(node, 0.5, scores)).z
    v = AddOp(half, scalar_like(node, 2 / (math.pi * _WINITZKI), scores)).z
    inner = MultiplyOp(log, scalar_like(node, 1 / _WINITZKI, scores)).z
    root = SqrtOp(SubtractOp(MultiplyOp(v, v).z, inner).z).y
    magnitude = SqrtOp(SubtractOp(root, v).z).y
    return MultiplyOp(
        MultiplyOp(SignOp(x).y, magnitude).z, scalar_like(node, 2**0.5, scores)
    ).z


_TRANSFORMS: Mapping[str, Callable[[OnnxNode, ir.Value], ir.Value]] = {
    "NONE": lambda node, scores: scores,
    "SOFTMAX": lambda node, scores: SoftmaxOp(scores, axis=-1).y,
    "LOGISTIC": lambda node, scores: SigmoidOp(scores).y,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def binary_scores(node: OnnxNode, score: ir.Value, is_probability: bool) -> ir.Value:
    """Scores of both classes [n, 2] of a binary classifier from that of the second [n, 1]."""
    other = (
        SubtractOp(scalar_like(node, 1, score), score).z
        if is_probability
        else NegativeOp(score).y
    )
    return ConcatOp([other, score], axis=1).y


def labels_of(node: OnnxNode, *names: str) -> np.ndarray:
    """The integer class labels.

    Raises:
        ValueError: the attribute is missing.
    """
    for name in names:
        if node.attrs.get(name):
            return np.array(node.attrs[name], np.int64)
    raise ValueError(f"attribute `{names[0]}` is missing")


def predicted_labels(node: OnnxNode, scores: ir.Value, labels: np.ndarray) -> ir.Value:
    """Predicted labels: argmax of each row, the first one on ties."""
    index = ArgmaxOp(scores, axis=1).y
    if np.array_equal(labels, np.arange(len(labels))):
        return index
    return TakeOp(node.constant(labels), index, axis=0, mode="clip").y
