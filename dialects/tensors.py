"""Tensor types with named dimensions, and Python values of attributes.

A dimension is an int or a symbolic expression (:mod:`relax_mlir.dialects.shapes`). A
type with a symbolic dimension carries all of them as its encoding,
``tensor<?x4xf32, #relax.shape<["n", "4"]>>``; the text is canonical, so equal shapes
are equal types.
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
    "attr_of",
    "dtype_of",
    "elements",
    "has_known_sizes",
    "pack",
    "place_of",
    "placed_attr",
    "python_value",
    "shape_attr",
    "shape_of",
    "substitute_type",
    "tensor_type",
]

_DYNAMIC = ir.ShapedType.get_dynamic_size()
_PREFIX = "#relax.shape<"


MAX_RANK = 64  # of a tensor, as of arrays of numpy
_MAX_SIZE = 2**48


def tensor_type(shape: Sequence[Dim], dtype: DType) -> ir.RankedTensorType:
    """The tensor type with these dimensions, named where they are symbolic.

    Raises:
        ValueError: it has so many elements that their addresses might overflow, or more
            axes than arrays have.
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


def has_known_sizes(type_: ir.RankedTensorType) -> bool:
    """Whether every dimension of a tensor is a number or has a name."""
    return type_.has_static_shape or type_.encoding is not None


def shape_of(value: ir.Value | ir.Type) -> tuple[Dim, ...]:
    """The dimensions of a tensor.

    Raises:
        ValueError: a dynamic dimension has no name, or the names do not fit the type.
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
        raise ValueError(f"`{type_}` names dimensions that do not fit it")
    return named


def dtype_of(value: ir.Value | ir.Type) -> DType:
    """The element type of a tensor."""
    type_ = value.type if isinstance(value, ir.Value) else value
    return dtypes.from_mlir(type_.element_type)


def substitute_type(type_: ir.Type, names: dict[str, Dim]) -> ir.Type:
    """``type_`` with symbols replaced; a tuple element by element."""
    if isinstance(type_, ir.TupleType):
        parts = [
            substitute_type(type_.get_type(i), names) for i in range(type_.num_types)
        ]
        return ir.TupleType.get_tuple(parts)
    if not isinstance(type_, ir.RankedTensorType) or type_.encoding is None:
        return type_
    dims = [shapes.substitute(dim, names) for dim in shape_of(type_)]
    return tensor_type(dims, dtype_of(type_))


def shape_attr(shape: Sequence[Dim]) -> ir.Attribute:
    """``#relax.shape<["n", "4"]>``."""
    names = ", ".join(f'"{dim}"' for dim in shape)
    return ir.Attribute.parse(f"{_PREFIX}[{names}]>")


def placed_attr(shape: Sequence[Dim] | None, place: str) -> ir.Attribute:
    """``#relax.shape<[["n", "4"], "place"]>``: where a tensor lives, beside its sizes.

    Args:
        shape: the sizes, or None where they are not known.
        place: the text of a device.
    """
    names = "unit" if shape is None else json.dumps([str(dim) for dim in shape])
    return ir.Attribute.parse(f"{_PREFIX}[{names}, {json.dumps(place)}]>")


def place_of(type_: ir.RankedTensorType) -> str | None:
    """Where a tensor lives; None if its type does not say."""
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
    """What an attribute means in Python; symbolic shapes become dimensions."""
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
    """The attribute of class ``kind`` that holds a Python value."""
    if isinstance(value, ir.Attribute):
        return value
    if value is None:
        return ir.UnitAttr.get()
    make = _MAKERS.get(kind)
    if make is not None:
        return make(value)
    if isinstance(value, (tuple, list)):
        return shape_attr(value)
    raise ValueError(f"cannot turn {value!r} into an attribute")


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


def pack(values: Sequence[ir.Value]) -> ir.Value:
    """Values of any types as one tuple.

    IRDL's variadic operands must all have one type, so mixed lists travel as a tuple,
    made by a cast that upstream passes leave alone.
    """
    type_ = ir.TupleType.get_tuple([value.type for value in values])
    cast = ir.Operation.create(
        "builtin.unrealized_conversion_cast", results=[type_], operands=list(values)
    )
    return cast.results[0]


def elements(value: ir.Value) -> list[ir.Value]:
    """The values that a tuple was packed from.

    Raises:
        ValueError: the tuple was not made by :func:`pack`.
    """
    owner = value.owner
    name = (
        owner.name if isinstance(owner, (ir.Operation, ir.OpView)) else "block argument"
    )
    if name != "builtin.unrealized_conversion_cast":
        raise ValueError(
            f"expected a tuple packed from values, got one made by `{name}`"
        )
    return list(owner.operands)
