"""Run-time inspection of tensors: element type, rank, shape, strides, offsets (DLPack)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects.expr import Call, Expr, Op, PrimValue
from relax_mlir.objects.expr.node import register_operator
from relax_mlir.tvm.relax.op.namespaces import inspect

__all__ = ["inspect"]

_TENSOR_PROPERTIES = (
    *("tensor_byte_offset", "tensor_dtype_bits", "tensor_dtype_code"),
    *("tensor_dtype_lanes", "tensor_elem_offset", "tensor_ndim"),
)
_AXIS_PROPERTIES = ("tensor_shape_i", "tensor_stride_i")


def _tensor_property(name: str) -> Callable[[Expr], Call]:
    def build(tensor: Expr) -> Call:
        return Call(Op.of(f"relax.inspect.{name}"), [tensor])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Read ``{name}`` of a tensor as a scalar."
    return build


def _axis_property(name: str) -> Callable[[Expr, Any], Call]:
    def build(tensor: Expr, axis: Any) -> Call:
        axis = axis if isinstance(axis, Expr) else PrimValue(axis)
        return Call(Op.of(f"relax.inspect.{name}"), [tensor, axis])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Read ``{name}`` of one axis of a tensor as a scalar."
    return build


@dataclass(frozen=True)
class _ElementType:
    """The element type of a tensor, read at run time."""

    tensor: Expr

    @property
    def type_code(self) -> Call:
        """DLPack type code."""
        return inspect.tensor_dtype_code(self.tensor)

    @property
    def bits(self) -> Call:
        """Bits per lane."""
        return inspect.tensor_dtype_bits(self.tensor)

    @property
    def lanes(self) -> Call:
        """Lanes per element."""
        return inspect.tensor_dtype_lanes(self.tensor)


@dataclass(frozen=True)
class _AxisValues:
    """The sizes or the strides of a tensor, read at run time, by axis."""

    tensor: Expr
    read: Callable[[Expr, Any], Call]

    def __getitem__(self, axis: Any) -> Call:
        return self.read(self.tensor, axis)


for _name in _TENSOR_PROPERTIES:
    setattr(inspect, _name, _tensor_property(_name))
for _name in _AXIS_PROPERTIES:
    setattr(inspect, _name, _axis_property(_name))

register_operator("dtype", _ElementType)
register_operator("ndim", inspect.tensor_ndim)
register_operator("sizes", lambda x: _AxisValues(x, inspect.tensor_shape_i))
register_operator("strides", lambda x: _AxisValues(x, inspect.tensor_stride_i))
register_operator("byte_offset", inspect.tensor_byte_offset)
register_operator("elem_offset", inspect.tensor_elem_offset)
