"""Tensor types with symbolic dimensions, and conversions of attributes.

A dimension is an int or a symbolic expression (:mod:`relax_mlir.dialects.shapes`). A
type with a symbolic dimension carries the whole shape as its encoding,
``tensor<?x4xf32, #relax.shape<["n", "4"]>>``; the text is canonical, so equal shapes
give equal types.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.shapes import Dim

__all__ = [
    "MAX_RANK",
    "TUPLE_PACK",
    "attr_of",
    "device_of",
    "dtype_of",
    "has_known_shape",
    "pack_tuple",
    "packed_type",
    "packed_values",
    "python_value",
    "shape_and_device_attr",
    "shape_attr",
    "shape_of",
    "tensor_type",
    "tuple_elements",
    "tuple_types",
]

_DYNAMIC = ir.ShapedType.get_dynamic_size()
_PREFIX = "#relax.shape<"


MAX_RANK = 64  # numpy's limit
_MAX_SIZE = 2**48  # elements of a tensor


def tensor_type(shape: Sequence[Dim], dtype: DType) -> ir.RankedTensorType:
    """The tensor type of a shape; symbolic dimensions are kept in the encoding.

    Raises:
        ValueError: the number of elements is so large that addresses might overflow, or
            the rank is above numpy's limit.
    """
    if len(shape) > MAX_RANK:
        raise ValueError(
            f"rank is too high: expected up to {MAX_RANK}, got {len(shape)}"
        )
    if shapes.largest_number(shapes.product(shape)) > _MAX_SIZE:
        shown = shapes.format_shape(shape)
        raise ValueError(f"too large: expected up to {_MAX_SIZE} elements, got {shown}")
    if all(isinstance(dim, int) for dim in shape):
        return ir.RankedTensorType.get(list(shape), dtype.tensor_type)
    sizes = [dim if isinstance(dim, int) else _DYNAMIC for dim in shape]
    return ir.RankedTensorType.get(sizes, dtype.tensor_type, shape_attr(shape))


def has_known_shape(type_: ir.RankedTensorType) -> bool:
    """Whether every dimension of a tensor type is an integer or an expression."""
    return type_.has_static_shape or type_.encoding is not None


def shape_of(value: ir.Value | ir.Type) -> tuple[Dim, ...]:
    """The dimensions of a tensor, integers or symbolic expressions.

    Raises:
        ValueError: a dynamic dimension has no expression, or the encoding contradicts the
            type.
    """
    type_ = value.type if isinstance(value, ir.Value) else value
    sizes = tuple(type_.shape)
    if _DYNAMIC not in sizes:
        return sizes
    if type_.encoding is None:
        raise ValueError(f"`{type_}` has a dynamic dimension without a name")
    named = _parse_shape(str(type_.encoding))
    if len(named) != len(sizes) or any(
        s != (d if isinstance(d, int) else _DYNAMIC)
        for s, d in zip(sizes, named, strict=True)
    ):
        raise ValueError(f"`{type_}`: the encoding contradicts the shape")
    return named


def dtype_of(value: ir.Value | ir.Type) -> DType:
    """The element type of a tensor."""
    type_ = value.type if isinstance(value, ir.Value) else value
    return dtypes.from_mlir(type_.element_type)


def shape_attr(shape: Sequence[Dim]) -> ir.Attribute:
    """The shape attribute ``#relax.shape<["n", "4"]>``."""
    names = ", ".join(f'"{dim}"' for dim in shape)
    return ir.Attribute.parse(f"{_PREFIX}[{names}]>")


def shape_and_device_attr(shape: Sequence[Dim] | None, place: str) -> ir.Attribute:
    """The attribute ``#relax.shape<[["n", "4"], "place"]>`` of a shape and a device.

    Args:
        shape: the sizes, or None if they are not known.
        place: the virtual device (``VDevice``) of the tensor, as text.
    """
    names = "unit" if shape is None else json.dumps([str(dim) for dim in shape])
    return ir.Attribute.parse(f"{_PREFIX}[{names}, {json.dumps(place)}]>")


def device_of(type_: ir.RankedTensorType) -> str | None:
    """The virtual device of a tensor type, as text; None if it has none."""
    placed = _PLACED.fullmatch(str(type_.encoding or ""))
    return None if placed is None else json.loads(placed["place"])


_PLACED = re.compile(r'#relax\.shape<\[(?P<sizes>\[.*\]|unit), (?P<place>"[^"]*")\]>')


@lru_cache(maxsize=4096)
def _parse_shape(text: str) -> tuple[Dim, ...]:
    placed = _PLACED.fullmatch(text)
    if placed is not None:
        text = placed["sizes"]
    if text == "unit":
        raise ValueError("the sizes of this tensor are not known")
    body = text.removeprefix(_PREFIX).removesuffix(">").strip()[1:-1]
    return tuple(
        shapes.parse(part.strip().strip('"')) for part in body.split('", "') if part
    )


def python_value(attr: ir.Attribute) -> Any:  # Any: as many types as attributes
    """Converts an attribute to a Python value; shape attributes become dimensions."""
    if isinstance(attr, ir.UnitAttr):
        return None
    if isinstance(attr, ir.ArrayAttr):
        return tuple(python_value(item) for item in attr)
    if isinstance(
        attr, (ir.DenseI64ArrayAttr, ir.DenseF64ArrayAttr, ir.DenseI32ArrayAttr)
    ):
        return tuple(attr)
    if isinstance(attr, ir.TypeAttr):
        return dtypes.from_mlir(attr.value)
    if isinstance(attr, (ir.IntegerAttr, ir.FloatAttr, ir.StringAttr, ir.BoolAttr)):
        return attr.value
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return attr.value
    text = str(attr)
    return _parse_shape(text) if text.startswith(_PREFIX) else attr


def attr_of(
    value: Any, kind: type[ir.Attribute]
) -> ir.Attribute:  # Any: see python_value
    """Converts a Python value to an attribute of class ``kind``."""
    if isinstance(value, ir.Attribute):
        return value
    if value is None:
        return ir.UnitAttr.get()
    make = _MAKERS.get(kind)
    if make is not None:
        return make(value)
    if isinstance(value, (tuple, list)):
        return shape_attr(value)
    raise ValueError(f"cannot convert {value!r} to an attribute")


def _string_attr(text: str) -> ir.StringAttr:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected text in UTF-8, got {text!r}") from None
    return ir.StringAttr.get(text)


_MAKERS: dict[type, Any] = {
    ir.IntegerAttr: lambda v: ir.IntegerAttr.get(
        ir.IntegerType.get_signless(64), int(v)
    ),
    ir.FloatAttr: lambda v: ir.FloatAttr.get(ir.F64Type.get(), float(v)),
    ir.StringAttr: _string_attr,
    ir.BoolAttr: lambda v: ir.BoolAttr.get(bool(v)),
    ir.DenseI64ArrayAttr: lambda v: ir.DenseI64ArrayAttr.get([int(i) for i in v]),
    ir.DenseF64ArrayAttr: lambda v: ir.DenseF64ArrayAttr.get([float(i) for i in v]),
    ir.TypeAttr: lambda v: ir.TypeAttr.get(v.tensor_type),
    ir.FlatSymbolRefAttr: ir.FlatSymbolRefAttr.get,
}


TUPLE_PACK = "builtin.unrealized_conversion_cast"  # of values into one tuple


def pack_tuple(values: Sequence[ir.Value]) -> ir.Value:
    """Packs values of any types into one value of tuple type.

    IRDL's variadic operands must all have one type, so mixed operand lists are packed into
    a tuple by an ``unrealized_conversion_cast``, which upstream passes preserve.
    """
    type_ = ir.TupleType.get_tuple([value.type for value in values])
    cast = ir.Operation.create(TUPLE_PACK, results=[type_], operands=list(values))
    return cast.results[0]


def packed_values(value: ir.Value) -> list[ir.Value] | None:
    """The values that a tuple was packed from; None if it was not packed."""
    owner = value.owner
    is_packed = not isinstance(owner, ir.Block) and owner.name == TUPLE_PACK
    return list(owner.operands) if is_packed else None


def tuple_types(type_: ir.Type) -> list[ir.Type]:
    """The element types of a tuple type; for any other type, a list of that type."""
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [type_.get_type(i) for i in range(type_.num_types)]


def packed_type(types: Sequence[ir.Type]) -> ir.Type:
    """A single type itself, or the tuple type of several; the inverse of :func:`tuple_types`."""
    return types[0] if len(types) == 1 else ir.TupleType.get_tuple(list(types))


def tuple_elements(value: ir.Value) -> list[ir.Value]:
    """Unpacks the values of a tuple.

    Raises:
        ValueError: the tuple does not come from packed values.
    """
    values = packed_values(value)
    if values is None:
        owner = value.owner
        name = "block argument" if isinstance(owner, ir.Block) else owner.name
        raise ValueError(f"expected a tuple packed from values, got one from `{name}`")
    return values
