"""``relax-canonicalize-bindings``: second names, known casts and known tuples go away."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.graphs import (
    PACK,
    SCRIPT_ATTRIBUTES,
    graph_functions,
    operations_of,
    substitute_sizes,
    symbols_in,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.rewriting import Pass, replace

__all__ = ["CanonicalizeBindings"]


@dataclass(frozen=True)
class CanonicalizeBindings(Pass):
    """Read every value under its first name.

    Symbols that a cast defines are replaced by the sizes that they are known to be; a cast
    to the type that the value has goes away, and so does taking an element out of a tuple
    that is written down.
    """

    opt_level = 1

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            _bind_known_symbols(function)
            for op in operations_of(function):
                value = _known_value(op)
                if value is not None:
                    _rename(op, value)
                elif isinstance(op, ConstantOp):
                    _inline(op)


def _bind_known_symbols(function: func.FuncOp) -> None:
    """Replace the symbols that casts of known shapes define."""
    defined = set(symbols_in(a.type for a in function.entry_block.arguments))
    values: dict[str, Dim] = {}
    for op in operations_of(function):
        if not isinstance(op, graph.MatchCastOp):
            continue
        for known, stated in _dimensions(op.value.type, op.result.type):
            name = str(stated)
            if shapes.symbols_of(stated) != (name,) or name in defined:
                continue
            size = shapes.substitute(known, values)
            if values.setdefault(name, size) != size:
                raise ValueError(
                    f"{op.location}: MatchCast statements must be consistent: symbol "
                    f"`{name}`: expected `{values[name]}`, got `{size}`"
                )
    if values:
        substitute_sizes(function, values)


def _dimensions(known: ir.Type, stated: ir.Type) -> list[tuple[Dim, Dim]]:
    """The sizes of a value, and what a cast calls them."""
    if isinstance(known, ir.TupleType) and isinstance(stated, ir.TupleType):
        pairs = zip(range(known.num_types), range(stated.num_types), strict=True)
        return [
            found
            for a, b in pairs
            for found in _dimensions(known.get_type(a), stated.get_type(b))
        ]
    if not isinstance(known, ir.RankedTensorType) or not _has_sizes(known):
        return []
    if not isinstance(stated, ir.RankedTensorType) or not _has_sizes(stated):
        return []
    return list(zip(tensors.shape_of(known), tensors.shape_of(stated), strict=True))


def _has_sizes(type_: ir.RankedTensorType) -> bool:
    return type_.has_static_shape or type_.encoding is not None


def _known_value(op: ir.OpView) -> ir.Value | None:
    """The value that an operation gives another name."""
    if isinstance(op, (graph.BindOp, graph.MatchCastOp)):
        return op.value if op.value.type == op.result.type else None
    if isinstance(op, TupleGetItemOp):
        pack = op.tuple_value.owner
        if not isinstance(pack, ir.Block) and pack.operation.name == PACK:
            return list(pack.operands)[op.python_attrs()["index"]]
    return None


def _rename(op: ir.OpView, value: ir.Value) -> None:
    """Use ``value`` in place of ``op``; it takes over being seen outside of its block."""
    source = value.owner
    is_output = names.OUTPUT in op.operation.attributes
    if is_output and not isinstance(source, ir.Block):
        inner = source.attributes
        in_dataflow = (
            names.BLOCK in inner and ir.IntegerAttr(inner[names.BLOCK]).value >= 0
        )
        if isinstance(source.opview, ConstantOp) or (
            in_dataflow and names.OUTPUT not in inner
        ):
            for name in SCRIPT_ATTRIBUTES:
                inner[name] = op.operation.attributes[name]
    replace(op, value)


def _inline(op: ConstantOp) -> None:
    """Let a constant be an argument without a name, unless others see it."""
    if names.OUTPUT in op.attributes:
        return
    for name in SCRIPT_ATTRIBUTES:
        if name in op.attributes:
            del op.attributes[name]
