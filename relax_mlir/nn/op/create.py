"""Tensor creation operators."""

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
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm.relax import op

__all__ = ["arange", "empty", "full", "ones", "zeros"]


def full(
    shape: Sequence[PrimExprLike],
    fill_value: Any,
    dtype: str = "float32",
    name: str = "full",
) -> Tensor:
    """A tensor filled with a number or the value of a scalar tensor."""
    if isinstance(fill_value, (prim.FloatImm, prim.IntImm)):
        fill_value = fill_value.value
    is_number = isinstance(fill_value, (int, float))
    if is_number:
        value = const(fill_value, dtype)
    else:
        kind = "a number or a tensor"
        value = instance_of(fill_value, Tensor, "full: `fill_value`", kind).as_expr()
    return wrap_nested(op.full(shape, value, dtype), name)


def zeros(
    shape: Sequence[PrimExprLike], dtype: str = "float32", name: str = "zeros"
) -> Tensor:
    """A tensor of zeros."""
    return wrap_nested(op.zeros(shape, dtype), name)


def ones(
    shape: Sequence[PrimExprLike], dtype: str = "float32", name: str = "ones"
) -> Tensor:
    """A tensor of ones."""
    return wrap_nested(op.ones(shape, dtype), name)


def empty(
    shape: Sequence[PrimExprLike], dtype: str = "float32", name: str = "empty"
) -> Tensor:
    """An uninitialized tensor."""
    sizes = ShapeExpr(shape)
    args = [sizes, DataTypeImm(dtype), PrimValue(0), StringImm("global")]
    allocated = Call(Op.of("relax.builtin.alloc_tensor"), args)
    return wrap_nested(allocated.with_struct_info(TensorStructInfo(sizes, dtype)), name)


def arange(
    start: int,
    end: int | None = None,
    step: int = 1,
    dtype: str | None = "float32",
    name: str = "arange",
) -> Tensor:
    """Evenly spaced numbers in [start, end); in [0, start) without ``end``."""
    return wrap_nested(op.arange(start, end, step, dtype), name)
