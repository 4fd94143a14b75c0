"""``relax-eliminate-common-subexpr``: common subexpression elimination."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.use_def import packed_operation, users_through
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewrite.common_subexpressions import Key, expression_key, merge_equal
from relax_mlir.rewrite.functions import (
    SCRIPT_ATTRIBUTES,
    copy_script_attributes,
    dataflow_block_number,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, erase, has_uses, replace

__all__ = ["EliminateCommonSubexpr"]


@dataclass(frozen=True)
class EliminateCommonSubexpr(Pass):
    """Replaces uses of equal pure expressions by the first; the others become aliases.

    Args:
        call_only: whether to skip tuples and their projections.
    """

    opt_level = 1
    call_only: bool = False

    def run(self, module: IRModule) -> None:
        effects = EffectAnalysis(module.mlir.operation)
        for function in graph_functions(module):
            for block in function.regions[0].blocks:
                merge_equal(block, partial(self._key, effects), _merge, is_nested=True)

    def _key(self, effects: EffectAnalysis, op: ir.OpView) -> Key | None:
        return _key_of(op) if self._is_mergeable(op, effects) else None

    def _is_mergeable(self, op: ir.OpView, effects: EffectAnalysis) -> bool:
        if function_attributes.NAME not in op.operation.attributes or isinstance(
            op, _LEAVES
        ):
            return False
        if (
            op.operation.name == tensors.TUPLE_PACK
            and (call := packed_operation(op)) is not None
        ):
            return effects.is_mergeable(call)
        if isinstance(op, TupleGetItemOp) or op.operation.name == tensors.TUPLE_PACK:
            return not self.call_only and effects.is_mergeable(op)
        return not len(op.regions) and effects.is_mergeable(op)


_OPERATIONS = EffectAnalysis()  # does not know the callees
_LEAVES = (graph.BindOp, ConstantOp, graph.ShapeExprOp, graph.PrimValueOp)


def _key_of(op: ir.OpView) -> Key:
    return expression_key(op, _operand_key, SCRIPT_ATTRIBUTES)


def _operand_key(value: ir.Value) -> object:
    """Returns a value, or a structural key of packed arguments and constants."""
    owner = value.owner
    if isinstance(owner, ir.Block) or function_attributes.NAME in owner.attributes:
        return value
    if len(owner.operation.results) > 1 and _OPERATIONS.is_mergeable(owner):
        index = list(owner.operation.results).index(value)
        return (_key_of(owner.operation.opview), index)
    if owner.name == tensors.TUPLE_PACK:
        return tuple(map(_operand_key, owner.operands))
    is_leaf = not list(owner.operands) and not len(owner.regions)
    return _key_of(owner.opview) if is_leaf else value


def _is_visible(user: ir.OpView, op: ir.OpView) -> bool:
    """Returns whether ``op``'s variable is visible at ``user``."""
    block = dataflow_block_number(op)
    is_visible_outside = (
        block < 0 or function_attributes.OUTPUT in op.operation.attributes
    )
    return is_visible_outside or dataflow_block_number(user) == block


def _merge(op: ir.OpView, equal: Sequence[ir.OpView]) -> ir.OpView:
    first = next((other for other in equal if _is_visible(op, other)), None)
    return op if first is None else _replace_by_alias(op, first)


def _replace_by_alias(op: ir.OpView, first: ir.OpView) -> ir.OpView:
    """Makes the variable of ``op`` an alias of ``first``, and replaces visible uses."""
    value = first.operation.results[0]
    with ir.InsertionPoint(op), op.location:
        alias = graph.BindOp(value, results=[op.operation.results[0].type])
    copy_script_attributes(op, alias)
    for use in list(op.operation.results[0].uses):
        if all(_is_visible(reader, first) for reader in users_through(use.owner)):
            use.owner.operation.operands[use.operand_number] = value
    call = packed_operation(op) if op.operation.name == tensors.TUPLE_PACK else None
    replace(op, alias.result)
    if call is not None and not any(map(has_uses, call.operation.results)):
        erase(call)
    return alias
