"""Operators that ask a tensor what it is: element type, rank, sizes, place in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects.expr import Call, Expr, Op, PrimValue
from relax_mlir.objects.node import register_operator
from relax_mlir.relax.op.namespaces import inspect

__all__ = ["inspect"]

_OF_A_TENSOR = (
    *("tensor_byte_offset", "tensor_dtype_bits", "tensor_dtype_code"),
    *("tensor_dtype_lanes", "tensor_elem_offset", "tensor_ndim"),
)
_OF_AN_AXIS = ("tensor_shape_i", "tensor_stride_i")


def _of_tensor(name: str) -> Callable[[Expr], Call]:
    def build(tensor: Expr) -> Call:
        return Call(Op.of(f"relax.inspect.{name}"), [tensor])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}`` of a tensor, as a scalar."
    return build


def _of_axis(name: str) -> Callable[[Expr, Any], Call]:
    def build(tensor: Expr, axis: Any) -> Call:
        axis = axis if isinstance(axis, Expr) else PrimValue(axis)
        return Call(Op.of(f"relax.inspect.{name}"), [tensor, axis])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}`` of one axis of a tensor, as a scalar."
    return build


@dataclass(frozen=True)
class _ElementType:
    """The element type of a tensor, to be asked when the program runs."""

    tensor: Expr

    @property
    def type_code(self) -> Call:
        """DLPack's code of its kind."""
        return inspect.tensor_dtype_code(self.tensor)

    @property
    def bits(self) -> Call:
        """Bits of a lane."""
        return inspect.tensor_dtype_bits(self.tensor)

    @property
    def lanes(self) -> Call:
        """Lanes of an element."""
        return inspect.tensor_dtype_lanes(self.tensor)


@dataclass(frozen=True)
class _OfAxes:
    """The sizes or the strides of a tensor, to be asked one by one."""

    tensor: Expr
    ask: Callable[[Expr, Any], Call]

    def __getitem__(self, axis: Any) -> Call:
        return self.ask(self.tensor, axis)


for _name in _OF_A_TENSOR:
    setattr(inspect, _name, _of_tensor(_name))
for _name in _OF_AN_AXIS:
    setattr(inspect, _name, _of_axis(_name))

register_operator("dtype", _ElementType)
register_operator("ndim", inspect.tensor_ndim)
register_operator("sizes", lambda x: _OfAxes(x, inspect.tensor_shape_i))
register_operator("strides", lambda x: _OfAxes(x, inspect.tensor_stride_i))
register_operator("byte_offset", inspect.tensor_byte_offset)
register_operator("elem_offset", inspect.tensor_elem_offset)
