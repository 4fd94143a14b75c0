"""What the sizes of a caller are called inside a tensor program."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.constraints import are_held_equal
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.dialects.tir import marks

__all__ = [
    "Renaming",
    "by_symbol",
    "dims_of",
    "layout_size",
    "substitute_attributes",
    "whole",
]

_OPERATOR = re.compile(r"[-+*(]")


@dataclass(frozen=True)
class Renaming:
    """Sizes of a caller as ``s0``, ``s1``, ... of a program, in order of appearance.

    Attributes:
        symbols: per symbol of the caller, the program's.
        dims: per whole dimension of the caller, the program's.
    """

    symbols: Mapping[str, Dim]
    dims: Mapping[Dim, Dim]

    def dim(self, dim: Dim) -> Dim:
        """One size."""
        if dim in self.dims:
            return self.dims[dim]
        return shapes.substitute(dim, self.symbols)

    def type(self, type_: ir.RankedTensorType) -> ir.RankedTensorType:
        """A tensor type."""
        shape = tensors.shape_of(type_)
        if all(isinstance(dim, int) for dim in shape):
            return type_
        return tensors.tensor_type(
            [self.dim(d) for d in shape], tensors.dtype_of(type_)
        )

    def sizes(self, names: Sequence[str]) -> list[Dim]:
        """What the symbols of the program are for the caller."""
        theirs: dict[str, Dim] = {
            str(ours): shapes.symbol(name) for name, ours in self.symbols.items()
        }
        for dim, ours in self.dims.items():
            theirs.setdefault(str(ours), dim)
        return [theirs[name] for name in names]


def by_symbol(dims: Iterable[Dim]) -> Renaming:
    """Every symbol gets a name; dimensions stay expressions of them."""
    names: dict[str, Dim] = {}
    for dim in dims:
        for name in () if isinstance(dim, int) else shapes.symbols_of(dim):
            names.setdefault(name, shapes.symbol(f"s{len(names)}"))
    return Renaming(names, {})


def whole(dims: Iterable[Dim]) -> Renaming:
    """Every dimension that is no number gets a name, whatever it is made of.

    Sizes that the module's constraints make equal get one name.
    """
    found: dict[Dim, Dim] = {}
    for dim in dims:
        if isinstance(dim, Expr) and dim not in found:
            same = next((d for d in found if are_held_equal(d, dim)), None)
            fresh = shapes.symbol(f"s{len(set(found.values()))}")
            found[dim] = fresh if same is None else found[same]
    return Renaming({}, found)


def substitute_attributes(
    op: ir.Operation | ir.OpView, values: Mapping[str, Dim]
) -> None:
    """Put sizes in place of symbols in the attributes of an operation.

    Symbols stand in shapes, and in the strides and the offset of a buffer.
    """
    attributes = op.attributes
    if marks.BUFFER in attributes:
        said = ir.DictAttr(attributes[marks.BUFFER])
        attributes[marks.BUFFER] = ir.DictAttr.get(
            {entry.name: _substituted(entry.attr, values) for entry in said}
        )
    for name in list(attributes):
        if str(attributes[name]).startswith("#relax.shape<"):
            found: Sequence[Dim] = tensors.python_value(attributes[name])
            dims = [shapes.substitute(dim, values) for dim in found]
            attributes[name] = tensors.shape_attr(dims)


def _substituted(attr: ir.Attribute, values: Mapping[str, Dim]) -> ir.Attribute:
    """What a buffer says of its layout, a symbol by its name, with sizes for symbols."""
    if isinstance(attr, ir.ArrayAttr):
        return ir.ArrayAttr.get([_substituted(part, values) for part in attr])
    if not isinstance(attr, ir.StringAttr):
        return attr
    size = layout_size(attr.value)
    if size is not None:
        return ir.StringAttr.get(str(shapes.substitute(size, values)))
    return ir.StringAttr.get(str(values.get(attr.value, attr.value)))


def layout_size(text: str) -> Dim | None:
    """A stride or an offset that sizes make up; None for a number, or a variable's name."""
    return shapes.parse(text) if _OPERATOR.search(text) else None


def dims_of(types: Iterable[ir.Type]) -> list[Dim]:
    """All dimensions of tensor types, in order."""
    return [dim for type_ in types for dim in tensors.shape_of(type_)]
