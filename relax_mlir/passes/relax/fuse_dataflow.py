"""Fusion of the bindings in dataflow blocks, by post-dominators."""

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax.core import CallTirOp, TupleGetItemOp
from relax_mlir.graphs import (
    block_number,
    blocks_of,
    drop_unread,
    graph_functions,
    is_inline,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.op_patterns import Pattern
from relax_mlir.passes.relax.annotate_tir_op_pattern import annotated_pattern
from relax_mlir.passes.relax.outline import Outliner, fused_name
from relax_mlir.passes.relax.partition import Graph, partition
from relax_mlir.traversal import own_operations

__all__ = ["fuse_by_post_dominators"]


def fuse_by_post_dominators(
    module: IRModule, max_ops: int, *, lift_constants: bool = True
) -> None:
    """Move groups of bindings into functions that become one kernel each."""
    patterns = _patterns(module)
    outliner = Outliner(module, lift_constants=lift_constants)
    for function in graph_functions(module):
        if "relax.primitive" in function.attributes:
            continue
        for block in blocks_of(function):
            for bindings in _dataflow_blocks(block):
                for members in _groups(bindings, patterns, max_ops):
                    outliner.outline(members, fused_name(members), {"Primitive": True})
        drop_unread(function)


def _patterns(module: IRModule) -> Mapping[str, Pattern]:
    """What tensor programs say of themselves; opaque where they say nothing."""
    programs = [f for f in module.func_ops() if names.is_prim_func(f)]
    found: dict[str, Pattern] = {}
    for program in programs:
        number = annotated_pattern(program)
        found[_name(program)] = Pattern.OPAQUE if number is None else Pattern(number)
    return found


def _name(function: func.FuncOp) -> str:
    return function.name.value


def _dataflow_blocks(block: ir.Block) -> Iterator[list[ir.OpView]]:
    """The bindings of each dataflow block, in order."""
    found: dict[int, list[ir.OpView]] = {}
    for op in own_operations(block):
        if block_number(op) >= 0 and len(op.operation.results):
            found.setdefault(block_number(op), []).append(op)
    yield from list(found.values())


def _groups(
    bindings: Sequence[ir.OpView], patterns: Mapping[str, Pattern], max_ops: int
) -> list[list[ir.OpView]]:
    """The groups of more than one binding, in order of their last ones."""
    graph = Graph()
    for op in bindings:
        _add(graph, op, patterns)
    partition(graph, max_depth=max_ops)
    groups: dict[object, list[ir.OpView]] = {}
    for op in bindings:
        root = graph.nodes[op.operation.results[0]].group()
        groups.setdefault(root, []).append(op)
    order = {op: number for number, op in enumerate(bindings)}
    found = [members for members in groups.values() if len(members) > 1]
    return sorted(found, key=lambda members: order[members[-1]])


def _add(graph: Graph, op: ir.OpView, patterns: Mapping[str, Pattern]) -> None:
    is_output = names.OUTPUT in op.operation.attributes
    pattern = _pattern(op, patterns)
    node = graph.add(op.operation.results[0], pattern, is_seen_outside=is_output)
    for operand in op.operation.operands:
        for leaf in _leaves(operand):
            graph.read(leaf, node, pattern)


def _pattern(op: ir.OpView, patterns: Mapping[str, Pattern]) -> Pattern:
    if isinstance(op, TupleGetItemOp):
        return Pattern.INJECTIVE
    if isinstance(op, CallTirOp):
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        return patterns.get(callee, Pattern.OPAQUE)
    return Pattern.OPAQUE


def _leaves(value: ir.Value) -> Iterator[ir.Value]:
    """A value, or those that are packed in front of a call."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_inline(owner) or not len(owner.operands):
        yield value
        return
    for operand in owner.operands:
        yield from _leaves(operand)
