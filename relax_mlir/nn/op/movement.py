"""Operators that move elements and compute none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.objects.expr import Var
from relax_mlir.objects.prim.terms import Term
from relax_mlir.relax import op

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
    """One more dimension of size 1, at ``dim``."""
    return wrap_nested(op.expand_dims(x.as_expr(), dim), name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """Without a dimension of size 1."""
    return wrap_nested(op.squeeze(x.as_expr(), axis), name)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Tensors one after the other along a dimension."""
    return wrap_nested(op.concat([t.as_expr() for t in x], dim), name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> Any:
    """Equal parts along a dimension; the last may be smaller."""
    return wrap_nested(op.split(x.as_expr(), chunks, dim), name)


def split(
    ary: Tensor,
    indices_or_sections: int | Sequence[int],
    axis: int = 0,
    name: str = "split",
) -> Any:
    """Parts along an axis: so many equal ones, or those that begin at these places."""
    return wrap_nested(op.split(ary.as_expr(), indices_or_sections, axis), name)


def broadcast_to(
    x: Tensor, shape: Sequence[Term], name: str = "broadcast_to"
) -> Tensor:
    """The elements repeated along dimensions of size 1, to a shape."""
    return wrap_nested(op.broadcast_to(x.as_expr(), shape), name)


def reshape(x: Tensor, shape: Sequence[Term], name: str = "reshape") -> Tensor:
    """The same elements in another shape; -1 is what is left, 0 the size as it is."""
    return wrap_nested(op.reshape(x.as_expr(), shape), name)


def permute_dims(
    x: Tensor, axes: Sequence[int] | None = None, name: str | None = None
) -> Tensor:
    """The dimensions in another order; backwards if none is given.

    The graph calls the weight ``linear1.weight``, seen so, ``matmul1_weight``.
    """
    if name is None:
        expr = x.as_expr()
        called = expr.name_hint if isinstance(expr, Var) else ""
        is_linear = "linear" in called
        name = called.replace("linear", "matmul") if is_linear else "permute_dims"
    return wrap_nested(op.permute_dims(x.as_expr(), axes), name)


def permute(x: Tensor, axes: Sequence[int] | None, name: str = "permute") -> Tensor:
    """The dimensions in another order; backwards if ``axes`` is None."""
    return wrap_nested(op.permute_dims(x.as_expr(), axes), name)


def repeat(
    x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat"
) -> Tensor:
    """Each element ``repeats`` times, along one axis or flat."""
    return wrap_nested(op.repeat(x.as_expr(), repeats, axis), name)


def take(
    x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take"
) -> Tensor:
    """The elements, or slices along an axis, with these indices."""
    return wrap_nested(op.take(x.as_expr(), indices.as_expr(), axis), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """The elements on a diagonal and above; zero elsewhere."""
    return wrap_nested(op.triu(x.as_expr(), diagonal), name)


def pad(
    x: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
    name: str = "pad",
) -> Tensor:
    """More elements around a tensor.

    Args:
        x: the tensor.
        pad: how many before and behind, dimension by dimension.
        mode: ``constant``, ``reflect``, ``replicate`` or ``circular``.
        value: the constant.
        name: what the graph calls it.
    """
    padded = op.nn.pad(x.as_expr(), pad_width=pad, pad_mode=mode, pad_value=value)
    return wrap_nested(padded, name)
