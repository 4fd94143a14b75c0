"""Substitution of a caller's symbolic sizes by the symbols of a tensor program."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.symbolic.constraints import are_assumed_equal

__all__ = [
    "SymbolSubstitution",
    "dims_of",
    "layout_size",
    "substitute_attributes",
    "substitute_dims",
    "substitute_symbols",
]

_OPERATOR = re.compile(r"[-+*(]")


@dataclass(frozen=True)
class SymbolSubstitution:
    """A map from a caller's sizes to the symbols ``s0``, ``s1``, ... of a program.

    Attributes:
        symbols: the program's size by symbol of the caller.
        dims: the program's size by whole dimension of the caller.
    """

    symbols: Mapping[str, Dim]
    dims: Mapping[Dim, Dim]

    def dim(self, dim: Dim) -> Dim:
        """Substitutes in one dimension."""
        if dim in self.dims:
            return self.dims[dim]
        return shapes.substitute(dim, self.symbols)

    def type(self, type_: ir.RankedTensorType) -> ir.RankedTensorType:
        """Substitutes in a tensor type."""
        shape = tensors.shape_of(type_)
        if all(isinstance(dim, int) for dim in shape):
            return type_
        return tensors.tensor_type(
            [self.dim(d) for d in shape], tensors.dtype_of(type_)
        )

    def sizes(self, names: Sequence[str]) -> list[Dim]:
        """The values of the program's symbols in terms of the caller's."""
        theirs: dict[str, Dim] = {
            str(ours): shapes.symbol(name) for name, ours in self.symbols.items()
        }
        for dim, ours in self.dims.items():
            theirs.setdefault(str(ours), dim)
        return [theirs[name] for name in names]


def substitute_symbols(dims: Iterable[Dim]) -> SymbolSubstitution:
    """A program symbol per symbol of the caller; dimensions stay expressions."""
    names: dict[str, Dim] = {}
    for dim in dims:
        for name in () if isinstance(dim, int) else shapes.symbols_of(dim):
            names.setdefault(name, shapes.symbol(f"s{len(names)}"))
    return SymbolSubstitution(names, {})


def substitute_dims(dims: Iterable[Dim]) -> SymbolSubstitution:
    """A program symbol per distinct symbolic dimension, regardless of its expression.

    Dimensions that the module's constraints make equal share a symbol.
    """
    found: dict[Dim, Dim] = {}
    for dim in dims:
        if isinstance(dim, Expr) and dim not in found:
            same = next((d for d in found if are_assumed_equal(d, dim)), None)
            fresh = shapes.symbol(f"s{len(set(found.values()))}")
            found[dim] = fresh if same is None else found[same]
    return SymbolSubstitution({}, found)


def substitute_attributes(
    op: ir.Operation | ir.OpView, values: Mapping[str, Dim]
) -> None:
    """Substitutes symbols in the attributes of an operation.

    These are shapes, and the strides and offset of a buffer.
    """
    attributes = op.attributes
    if attribute_names.BUFFER in attributes:
        buffer = ir.DictAttr(attributes[attribute_names.BUFFER])
        attributes[attribute_names.BUFFER] = ir.DictAttr.get(
            {entry.name: _substituted(entry.attr, values) for entry in buffer}
        )
    for name in list(attributes):
        if str(attributes[name]).startswith("#relax.shape<"):
            found: Sequence[Dim] = tensors.python_value(attributes[name])
            dims = [shapes.substitute(dim, values) for dim in found]
            attributes[name] = tensors.shape_attr(dims)


def _substituted(attr: ir.Attribute, values: Mapping[str, Dim]) -> ir.Attribute:
    """Substitutes symbols in a buffer's layout attribute."""
    if isinstance(attr, ir.ArrayAttr):
        return ir.ArrayAttr.get([_substituted(part, values) for part in attr])
    if not isinstance(attr, ir.StringAttr):
        return attr
    size = layout_size(attr.value)
    if size is not None:
        return ir.StringAttr.get(str(shapes.substitute(size, values)))
    return ir.StringAttr.get(str(values.get(attr.value, attr.value)))


def layout_size(text: str) -> Dim | None:
    """A stride or offset that is an expression; None for a number or a variable's name."""
    return shapes.parse(text) if _OPERATOR.search(text) else None


def dims_of(types: Iterable[ir.Type]) -> list[Dim]:
    """All dimensions of tensor types, in order."""
    return [dim for type_ in types for dim in tensors.shape_of(type_)]
