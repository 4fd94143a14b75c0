"""Tensors that are made of no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr import (
    Call,
    DataTypeImm,
    Op,
    PrimValue,
    ShapeExpr,
    StringImm,
    const,
)
from relax_mlir.objects.prim.terms import Term
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax import op

__all__ = ["arange", "empty", "full", "ones", "zeros"]


def full(
    shape: Sequence[Term], fill_value: Any, dtype: str = "float32", name: str = "full"
) -> Tensor:
    """A tensor of one value: a number, or the element of a tensor of rank 0."""
    if isinstance(fill_value, (prim.FloatImm, prim.IntImm)):
        fill_value = fill_value.value
    is_number = isinstance(fill_value, (int, float))
    if is_number:
        value = const(fill_value, dtype)
    else:
        kind = "a number or a tensor"
        value = instance_of(fill_value, Tensor, "full: `fill_value`", kind).as_expr()
    return wrap_nested(op.full(shape, value, dtype), name)


def zeros(shape: Sequence[Term], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """A tensor of zeros."""
    return wrap_nested(op.zeros(shape, dtype), name)


def ones(shape: Sequence[Term], dtype: str = "float32", name: str = "ones") -> Tensor:
    """A tensor of ones."""
    return wrap_nested(op.ones(shape, dtype), name)


def empty(shape: Sequence[Term], dtype: str = "float32", name: str = "empty") -> Tensor:
    """A tensor whose elements are not set."""
    sizes = ShapeExpr(shape)
    args = [sizes, DataTypeImm(dtype), PrimValue(0), StringImm("global")]
    made = Call(Op.of("relax.builtin.alloc_tensor"), args)
    return wrap_nested(made.with_struct_info(TensorStructInfo(sizes, dtype)), name)


def arange(
    start: int,
    end: int | None = None,
    step: int = 1,
    dtype: str | None = "float32",
    name: str = "arange",
) -> Tensor:
    """Numbers from ``start`` to before ``end``; from 0 if only one is given."""
    return wrap_nested(op.arange(start, end, step, dtype), name)
