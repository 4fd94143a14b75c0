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
    block_number,
    graph_functions,
    hand_over_output,
    operations_of,
    substitute_sizes,
    symbols_in,
    users_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.passes.relax.sharpen_types import sharpen_types, values_after
from relax_mlir.rewriting import Pass, replace

__all__ = ["CanonicalizeBindings", "canonicalize"]


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
            canonicalize(module, function)


def canonicalize(module: IRModule, function: func.FuncOp) -> None:
    """Read every value of one function under its first name."""
    stale = _bind_known_symbols(function)
    outputs = [op for op in operations_of(function) if _is_output_constant(op)]
    for op in operations_of(function):
        value = _known_value(op)
        if value is not None:
            stale.update(values_after(op))
            _rename(op, value)
        elif isinstance(op, ConstantOp):
            _inline(op)
    sharpen_types(module, function, stale)
    _hide_outputs(function)
    for op in outputs:
        _copy_to_readers(op)


def _bind_known_symbols(function: func.FuncOp) -> set[ir.Value]:
    """Replace the symbols that casts of known shapes define.

    Returns:
        What is computed from values that may have other sizes now.
    """
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
    if not values:
        return set()
    substitute_sizes(function, values)
    return {r for op in operations_of(function) for r in op.operation.results}


def _dimensions(known: ir.Type, stated: ir.Type) -> list[tuple[Dim, Dim]]:
    """The sizes of a value, and what a cast calls them."""
    if isinstance(known, ir.TupleType) and isinstance(stated, ir.TupleType):
        pairs = zip(range(known.num_types), range(stated.num_types), strict=True)
        return [
            found
            for a, b in pairs
            for found in _dimensions(known.get_type(a), stated.get_type(b))
        ]
    if not isinstance(known, ir.RankedTensorType) or not tensors.has_known_sizes(known):
        return []
    if not isinstance(stated, ir.RankedTensorType) or not tensors.has_known_sizes(
        stated
    ):
        return []
    return list(zip(tensors.shape_of(known), tensors.shape_of(stated), strict=True))


def _known_value(op: ir.OpView) -> ir.Value | None:
    """The value that an operation gives another name."""
    if isinstance(op, (graph.BindOp, graph.MatchCastOp)):
        return op.value if op.value.type == op.result.type else None
    if isinstance(op, TupleGetItemOp):
        pack = op.tuple_value.owner
        if not isinstance(pack, ir.Block) and pack.operation.name == PACK:
            return list(pack.operands)[op.python_attrs()["index"]]
    is_tuple = op.operation.name == PACK and names.NAME in op.operation.attributes
    return _tuple_of_elements(op) if is_tuple else None


def _tuple_of_elements(pack: ir.OpView) -> ir.Value | None:
    """The tuple of which another one holds all elements in order."""
    whole: ir.Value | None = None
    for number, element in enumerate(pack.operation.operands):
        item = None if isinstance(element.owner, ir.Block) else element.owner.opview
        if not isinstance(item, TupleGetItemOp):
            return None
        is_next = item.python_attrs()["index"] == number
        if not is_next or (whole is not None and item.tuple_value != whole):
            return None
        whole = item.tuple_value
    has_all = whole is not None and whole.type == pack.operation.results[0].type
    return whole if has_all else None


def _rename(op: ir.OpView, value: ir.Value) -> None:
    """Use ``value`` in place of ``op``; it takes over being seen outside of its block."""
    source = value.owner
    if isinstance(op, TupleGetItemOp) and _is_unnamed_constant(source):
        op.result.replace_all_uses_with(value)
        return
    hand_over_output(op, value)
    replace(op, value)


def _inline(op: ConstantOp) -> None:
    """Let a constant be an argument without a name, unless others see it."""
    if names.OUTPUT in op.attributes:
        return
    for name in SCRIPT_ATTRIBUTES:
        if name in op.attributes:
            del op.attributes[name]


def _is_unnamed_constant(source: ir.Operation | ir.OpView | ir.Block) -> bool:
    return (
        not isinstance(source, ir.Block)
        and isinstance(source.operation.opview, ConstantOp)
        and names.NAME not in source.attributes
    )


def _is_output_constant(op: ir.OpView) -> bool:
    return isinstance(op, ConstantOp) and names.OUTPUT in op.attributes


def _hide_outputs(function: func.FuncOp) -> None:
    """Let variables that nothing reads outside of their dataflow block stay in it."""
    for op in operations_of(function):
        attributes, block = op.operation.attributes, block_number(op)
        if names.OUTPUT not in attributes or block < 0:
            continue
        readers = [u for r in op.operation.results for u in users_of(r)]
        if all(block_number(reader) == block for reader in readers):
            del attributes[names.OUTPUT]


def _copy_to_readers(op: ir.OpView) -> None:
    """Let what reads a constant by its variable hold it itself."""
    result = op.operation.results[0]
    for use in list(result.uses):
        with ir.InsertionPoint(use.owner):
            copy = op.operation.clone()
        for name in SCRIPT_ATTRIBUTES:
            if name in copy.attributes:
                del copy.attributes[name]
        use.owner.operation.operands[use.operand_number] = copy.results[0]
