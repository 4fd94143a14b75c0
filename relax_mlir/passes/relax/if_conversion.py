"""If-conversion: ``if`` operations as elementwise selects."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.compare import WhereOp
from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import operations_of, own_operations
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewrite.functions import tuple_parts
from relax_mlir.rewrite.patterns import clone, replace

__all__ = ["convert_ifs_to_selects"]


def convert_ifs_to_selects(function: func.FuncOp) -> None:
    """Replaces every ``if`` by computing both branches and selecting elementwise.

    Raises:
        PassError: a branch has side effects or may trap, or the types of the branches differ.
    """
    effects = EffectAnalysis()
    for op in reversed(list(operations_of(function))):
        if isinstance(op, graph.IfOp):
            _select(op, effects)


def _select(op: graph.IfOp, effects: EffectAnalysis) -> None:
    with ir.InsertionPoint(op), op.location:
        values = [
            _inlined(op, region.blocks[0], effects) for region in op.operation.regions
        ]
        value = _where(op, op.condition, values[0], values[1])
    replace(op, value)


def _inlined(op: graph.IfOp, block: ir.Block, effects: EffectAnalysis) -> ir.Value:
    """Copies a branch before the ``if``; returns its value."""
    mapping: dict[ir.Value, ir.Value] = {}
    *operations, last = own_operations(block)
    for inner in operations:
        if not effects.is_speculatable(inner):
            raise PassError(
                f"{op.location}: `{inner.operation.name}` in a branch: expected operations "
                "that are safe to speculate, since both branches are executed"
            )
        clone(inner, mapping)
    value = last.operands[0]
    return mapping.get(value, value)


def _where(
    op: graph.IfOp, condition: ir.Value, then: ir.Value, other: ir.Value
) -> ir.Value:
    if then.type != other.type:
        raise PassError(
            f"{op.location}: the branches differ in type: expected `{then.type}`, got "
            f"`{other.type}`"
        )
    if not isinstance(then.type, ir.TupleType):
        return WhereOp(condition, then, other).results[0]
    pairs = zip(tuple_parts(then), tuple_parts(other), strict=True)
    chosen = [_where(op, condition, a, b) for a, b in pairs]
    return tensors.pack_tuple(chosen)
