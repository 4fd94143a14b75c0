"""``relax-eliminate-common-subexpr``: equal expressions are computed once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.graphs import (
    PACK,
    SCRIPT_ATTRIBUTES,
    block_number,
    copy_script_attributes,
    graph_functions,
    users_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewriting import Pass, erase, has_uses, replace
from relax_mlir.traversal import own_operations

__all__ = ["EliminateCommonSubexpr"]

_Key = tuple[object, ...]


@dataclass(frozen=True)
class EliminateCommonSubexpr(Pass):
    """Read the first of equal pure expressions; the others stay as second names of it.

    Args:
        call_only: leave out tuples and their elements.
    """

    opt_level = 1
    call_only: bool = False

    def run(self, module: IRModule) -> None:
        effects = EffectAnalysis(module.mlir.operation)
        for function in graph_functions(module):
            for block in function.regions[0].blocks:
                self._merge(block, {}, effects)

    def _merge(
        self,
        block: ir.Block,
        outer: Mapping[_Key, Sequence[ir.OpView]],
        effects: EffectAnalysis,
    ) -> None:
        seen = {key: list(found) for key, found in outer.items()}
        for op in list(own_operations(block)):
            for region in op.operation.regions:
                for inner in region.blocks:
                    self._merge(inner, seen, effects)
            if self._is_mergeable(op, effects):
                known = seen.setdefault(_key_of(op), [])
                first = next((k for k in known if _sees(op, k)), None)
                known.append(op if first is None else _second_name(op, first))

    def _is_mergeable(self, op: ir.OpView, effects: EffectAnalysis) -> bool:
        if names.NAME not in op.operation.attributes or isinstance(op, _LEAVES):
            return False
        if op.operation.name == PACK and (call := _packed_call(op)) is not None:
            return effects.is_mergeable(call)
        if isinstance(op, TupleGetItemOp) or op.operation.name == PACK:
            return not self.call_only and effects.is_mergeable(op)
        return not len(op.regions) and effects.is_mergeable(op)


_OPERATIONS = EffectAnalysis()  # without calls of functions
_LEAVES = (graph.BindOp, ConstantOp, graph.ShapeExprOp, graph.PrimValueOp)


def _key_of(op: ir.OpView) -> _Key:
    operation = op.operation
    attributes = sorted(
        (name, str(operation.attributes[name]))
        for name in operation.attributes
        if name not in SCRIPT_ATTRIBUTES
    )
    operands = tuple(map(_operand_key, operation.operands))
    types = tuple(str(r.type) for r in operation.results)
    return (operation.name, operands, tuple(attributes), types)


def _packed_call(pack: ir.OpView) -> ir.OpView | None:
    """The operation of which a tuple holds all of several results."""
    operands = list(pack.operation.operands)
    owner = operands[0].owner if len(operands) > 1 else None
    if not isinstance(owner, (ir.OpView, ir.Operation)):
        return None
    call = owner.operation.opview
    return call if list(call.operation.results) == operands else None


def _operand_key(value: ir.Value) -> object:
    """A value; the packing of arguments, and constants, by what they hold."""
    owner = value.owner
    if isinstance(owner, ir.Block) or names.NAME in owner.attributes:
        return value
    if len(owner.operation.results) > 1 and _OPERATIONS.is_mergeable(owner):
        number = list(owner.operation.results).index(value)
        return (_key_of(owner.operation.opview), number)
    if owner.name == PACK:
        return tuple(map(_operand_key, owner.operands))
    is_leaf = not list(owner.operands) and not len(owner.regions)
    return _key_of(owner.opview) if is_leaf else value


def _sees(user: ir.OpView, op: ir.OpView) -> bool:
    """Whether a script may read at ``user`` what ``op`` binds."""
    block = block_number(op)
    is_open = block < 0 or names.OUTPUT in op.operation.attributes
    return is_open or block_number(user) == block


def _second_name(op: ir.OpView, first: ir.OpView) -> ir.OpView:
    """Bind the variable of ``op`` to that of ``first``, which is read where it may be."""
    value = first.operation.results[0]
    with ir.InsertionPoint(op), op.location:
        second = graph.BindOp(value, results=[op.operation.results[0].type])
    copy_script_attributes(op, second)
    for use in list(op.operation.results[0].uses):
        if all(_sees(reader, first) for reader in _readers(use.owner)):
            use.owner.operation.operands[use.operand_number] = value
    call = _packed_call(op) if op.operation.name == PACK else None
    replace(op, second.result)
    if call is not None and not any(map(has_uses, call.operation.results)):
        erase(call)
    return second


def _readers(user: ir.OpView) -> list[ir.OpView]:
    """Who reads what ``user`` makes, if it only packs arguments, else itself."""
    attributes = user.operation.attributes
    if user.operation.name == PACK and names.NAME not in attributes:
        return [r for result in user.operation.results for r in users_of(result)]
    return [user]
