"""Data movement operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.objects.expr import Var
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm.relax import op

__all__ = [
    "broadcast_to",
    "chunk",
    "concat",
    "pad",
    "permute",
    "permute_dims",
    "repeat",
    "reshape",
    "split",
    "squeeze",
    "take",
    "triu",
    "unsqueeze",
]


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """Insert a unit dimension at ``dim``."""
    return wrap_nested(op.expand_dims(x.as_expr(), dim), name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """Remove a unit dimension."""
    return wrap_nested(op.squeeze(x.as_expr(), axis), name)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Concatenation along a dimension."""
    return wrap_nested(op.concat([t.as_expr() for t in x], dim), name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> Any:
    """Split into equal chunks along a dimension; the last may be smaller."""
    return wrap_nested(op.split(x.as_expr(), chunks, dim), name)


def split(
    ary: Tensor,
    indices_or_sections: int | Sequence[int],
    axis: int = 0,
    name: str = "split",
) -> Any:
    """Split along an axis into equal sections, or at indices."""
    return wrap_nested(op.split(ary.as_expr(), indices_or_sections, axis), name)


def broadcast_to(
    x: Tensor, shape: Sequence[PrimExprLike], name: str = "broadcast_to"
) -> Tensor:
    """Broadcast to a shape."""
    return wrap_nested(op.broadcast_to(x.as_expr(), shape), name)


def reshape(x: Tensor, shape: Sequence[PrimExprLike], name: str = "reshape") -> Tensor:
    """Reshape; -1 is inferred, 0 keeps the input's size."""
    return wrap_nested(op.reshape(x.as_expr(), shape), name)


def permute_dims(
    x: Tensor, axes: Sequence[int] | None = None, name: str | None = None
) -> Tensor:
    """Permutation of dimensions; reversal by default.

    The transpose of the weight ``linear1.weight`` is named ``matmul1.weight``.
    """
    if name is None:
        expr = x.as_expr()
        old = expr.name_hint if isinstance(expr, Var) else ""
        is_linear = "linear" in old
        name = old.replace("linear", "matmul") if is_linear else "permute_dims"
    return wrap_nested(op.permute_dims(x.as_expr(), axes), name)


def permute(x: Tensor, axes: Sequence[int] | None, name: str = "permute") -> Tensor:
    """Permutation of dimensions; reversal if ``axes`` is None."""
    return wrap_nested(op.permute_dims(x.as_expr(), axes), name)


def repeat(
    x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat"
) -> Tensor:
    """Repeat each element, along an axis or flattened."""
    return wrap_nested(op.repeat(x.as_expr(), repeats, axis), name)


def take(
    x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take"
) -> Tensor:
    """Gather of elements, or of slices along an axis."""
    return wrap_nested(op.take(x.as_expr(), indices.as_expr(), axis), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """Upper triangle from a diagonal on; zero elsewhere."""
    return wrap_nested(op.triu(x.as_expr(), diagonal), name)


def pad(
    x: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
    name: str = "pad",
) -> Tensor:
    """Padding of a tensor.

    Args:
        x: the tensor.
        pad: widths before and after each dimension.
        mode: ``constant``, ``reflect``, ``replicate`` or ``circular``.
        value: the constant.
        name: name of the result variable.
    """
    padded = op.nn.pad(x.as_expr(), pad_width=pad, pad_mode=mode, pad_value=value)
    return wrap_nested(padded, name)
