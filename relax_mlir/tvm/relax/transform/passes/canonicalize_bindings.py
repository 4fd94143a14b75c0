"""``relax-canonicalize-bindings``: removes aliases, redundant casts and projections."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.ir.use_def import users_of
from relax_mlir.passes.relax.refine_types import refine_result_types, results_of_users
from relax_mlir.rewrite.functions import (
    SCRIPT_ATTRIBUTES,
    dataflow_block_number,
    graph_functions,
    substitute_sizes,
    symbols_in,
    transfer_output,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["CanonicalizeBindings", "canonicalize_function"]


@dataclass(frozen=True)
class CanonicalizeBindings(Pass):
    """Removes aliases, redundant casts, and projections of known tuples.

    Symbols that a cast defines are replaced by the known sizes. A cast to the type of its
    operand is removed, and so is a projection of a tuple that is written out.
    """

    opt_level = 1

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            canonicalize_function(module, function)


def canonicalize_function(module: IRModule, function: func.FuncOp) -> None:
    """Canonicalizes the bindings of one function."""
    outdated = _bind_known_symbols(function)
    outputs = [op for op in operations_of(function) if _is_output_constant(op)]
    for op in operations_of(function):
        value = _equal_value(op)
        if value is not None:
            outdated.update(results_of_users(op))
            _replace_alias(op, value)
        elif isinstance(op, ConstantOp):
            _drop_name(op)
    refine_result_types(module, function, outdated)
    _localize_outputs(function)
    for op in outputs:
        _copy_to_users(op)


def _bind_known_symbols(function: func.FuncOp) -> set[ir.Value]:
    """Substitutes known sizes for symbols that casts define.

    Returns:
        The values whose types may have changed.
    """
    defined = set(symbols_in(a.type for a in function.entry_block.arguments))
    values: dict[str, Dim] = {}
    for op in operations_of(function):
        if not isinstance(op, graph.MatchCastOp):
            continue
        for known, declared in _dimensions(op.value.type, op.result.type):
            name = str(declared)
            if shapes.symbols_of(declared) != (name,) or name in defined:
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


def _dimensions(known: ir.Type, declared: ir.Type) -> list[tuple[Dim, Dim]]:
    """Returns pairs of the known size and the declared one of each dimension."""
    if isinstance(known, ir.TupleType) and isinstance(declared, ir.TupleType):
        pairs = zip(range(known.num_types), range(declared.num_types), strict=True)
        return [
            dims
            for a, b in pairs
            for dims in _dimensions(known.get_type(a), declared.get_type(b))
        ]
    if not isinstance(known, ir.RankedTensorType) or not tensors.has_known_shape(known):
        return []
    if not isinstance(declared, ir.RankedTensorType) or not tensors.has_known_shape(
        declared
    ):
        return []
    return list(zip(tensors.shape_of(known), tensors.shape_of(declared), strict=True))


def _equal_value(op: ir.OpView) -> ir.Value | None:
    """Returns the existing value that an operation is equal to, or None."""
    if isinstance(op, (graph.BindOp, graph.MatchCastOp)):
        return op.value if op.value.type == op.result.type else None
    if isinstance(op, TupleGetItemOp):
        return op.packed_value
    is_tuple = (
        op.operation.name == tensors.TUPLE_PACK
        and function_attributes.NAME in op.operation.attributes
    )
    return _repacked_tuple(op) if is_tuple else None


def _repacked_tuple(pack: ir.OpView) -> ir.Value | None:
    """Returns the tuple whose elements another one packs again, in order."""
    original: ir.Value | None = None
    for index, element in enumerate(pack.operation.operands):
        item = None if isinstance(element.owner, ir.Block) else element.owner.opview
        if not isinstance(item, TupleGetItemOp):
            return None
        is_next = item.python_attrs()["index"] == index
        if not is_next or (original is not None and item.tuple_value != original):
            return None
        original = item.tuple_value
    has_all = original is not None and original.type == pack.operation.results[0].type
    return original if has_all else None


def _replace_alias(op: ir.OpView, value: ir.Value) -> None:
    """Replaces ``op`` by ``value``, which inherits its visibility outside of the block."""
    source = value.owner
    if isinstance(op, TupleGetItemOp) and _is_unnamed_constant(source):
        op.result.replace_all_uses_with(value)
        return
    transfer_output(op, value)
    replace(op, value)


def _drop_name(op: ConstantOp) -> None:
    """Makes a constant an unnamed operand, unless it is visible outside of its block."""
    if function_attributes.OUTPUT in op.attributes:
        return
    for name in SCRIPT_ATTRIBUTES:
        if name in op.attributes:
            del op.attributes[name]


def _is_unnamed_constant(source: ir.Operation | ir.OpView | ir.Block) -> bool:
    return (
        not isinstance(source, ir.Block)
        and isinstance(source.operation.opview, ConstantOp)
        and function_attributes.NAME not in source.attributes
    )


def _is_output_constant(op: ir.OpView) -> bool:
    return isinstance(op, ConstantOp) and function_attributes.OUTPUT in op.attributes


def _localize_outputs(function: func.FuncOp) -> None:
    """Makes dataflow variables local that nothing outside of their block uses."""
    for op in operations_of(function):
        attributes, block = op.operation.attributes, dataflow_block_number(op)
        if function_attributes.OUTPUT not in attributes or block < 0:
            continue
        readers = [u for r in op.operation.results for u in users_of(r)]
        if all(dataflow_block_number(reader) == block for reader in readers):
            del attributes[function_attributes.OUTPUT]


def _copy_to_users(op: ir.OpView) -> None:
    """Copies a constant into each of its users."""
    result = op.operation.results[0]
    for use in list(result.uses):
        with ir.InsertionPoint(use.owner):
            copy = op.operation.clone()
        for name in SCRIPT_ATTRIBUTES:
            if name in copy.attributes:
                del copy.attributes[name]
        use.owner.operation.operands[use.operand_number] = copy.results[0]
