"""Operation attributes that are scalars of any element type, or symbolic sizes."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim, Expr

__all__ = ["ScalarAttributesOp", "ScalarValue", "dtype_of_number"]

# An int is an int64, a float is a float64; other types are numpy scalars.
ScalarValue: TypeAlias = int | float | np.generic | Expr


class ScalarAttributesOp(Relax.Operation):
    """Base of operations with scalar attributes.

    A scalar attribute is ``3 : i64``, ``1.5 : f32`` or, for a symbolic size,
    ``#relax.shape<["n"]>``. Those in ``sequence_attributes`` may hold several sizes.
    """

    number_attributes: ClassVar[tuple[str, ...]] = ()
    sequence_attributes: ClassVar[tuple[str, ...]] = ()  # a subset: may hold several

    @classmethod
    def _make_attributes(cls, attrs: dict[str, Any]) -> dict[str, ir.Attribute]:
        numbers = {n: _attr_of(attrs[n]) for n in cls.number_attributes if n in attrs}
        return super()._make_attributes({**attrs, **numbers})

    def python_attrs(self) -> dict[str, Any]:
        numbers = {
            n: _number_of(
                self.attributes[n], is_single=n not in self.sequence_attributes
            )
            for n in self.number_attributes
        }
        return {**super().python_attrs(), **numbers}


def dtype_of_number(number: ScalarValue) -> DType:
    """The element type of a number; int64 for a symbolic size."""
    if isinstance(number, Expr):
        return dtypes.dtype("int64")
    return dtypes.from_numpy(np.asarray(number).dtype)


def _attr_of(value: Any) -> Any:  # Any: a number, numbers, None, or an attribute
    if isinstance(value, Expr):
        return tensors.shape_attr((value,))
    if value is None or isinstance(value, (ir.Attribute, Sequence)):
        return value
    type_ = dtype_of_number(value)
    if type_.kind == "b":
        return ir.BoolAttr.get(bool(value))
    if type_.is_float:
        return ir.FloatAttr.get(type_.tensor_type, float(value))
    return ir.IntegerAttr.get(type_.tensor_type, int(value))


def _number_of(
    attr: ir.Attribute, *, is_single: bool
) -> "ScalarValue | tuple[Dim, ...] | None":
    """The Python value of a scalar attribute; a constant shape attribute gives an int."""
    value = tensors.python_value(attr)
    if isinstance(value, tuple):
        is_size = len(value) == 1 and (is_single or isinstance(value[0], Expr))
        return value[0] if is_size else value
    if isinstance(attr, (ir.IntegerAttr, ir.FloatAttr)):
        type_ = dtypes.from_mlir(attr.type)
        is_python = type_.name in ("int64", "float64", "bool")
        return value if is_python else type_.numpy.type(value)
    return value
