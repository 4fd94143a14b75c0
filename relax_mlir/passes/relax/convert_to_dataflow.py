"""``relax-convert-to-dataflow``: runs of pure bindings become dataflow blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import (
    block_number,
    blocks_of,
    graph_functions,
    operations_of,
    users_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import own_operations

__all__ = ["ConvertToDataflow", "mark_outputs"]


@dataclass(frozen=True)
class ConvertToDataflow(Pass):
    """Put pure bindings that follow each other into a dataflow block.

    Args:
        min_size: bindings that a new block has at least.
    """

    min_size: int = 2

    def run(self, module: IRModule) -> None:
        effects = EffectAnalysis(module.mlir.operation)
        for function in graph_functions(module):
            number = 1 + max(map(block_number, operations_of(function)), default=-1)
            for block in blocks_of(function):
                for run in _runs(block, effects):
                    taken = {block_number(op) for op in run if block_number(op) >= 0}
                    if len(run) >= self.min_size or taken:
                        for op in run:
                            op.operation.attributes[names.BLOCK] = to_attribute(number)
                        number += 1
                mark_outputs(block)


def _runs(block: ir.Block, effects: EffectAnalysis) -> Iterator[list[ir.OpView]]:
    """The longest runs of pure bindings."""
    run: list[ir.OpView] = []
    for op in own_operations(block):
        if not _is_binding(op):
            continue
        if _may_stand_in_dataflow(op, effects):
            run.append(op)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _is_binding(op: ir.OpView) -> bool:
    return names.NAME in op.operation.attributes


def _may_stand_in_dataflow(op: ir.OpView, effects: EffectAnalysis) -> bool:
    """Whether an operation is pure, and no choice: a dataflow block branches nowhere."""
    return not isinstance(op, graph.IfOp) and effects.of(op).is_pure


def mark_outputs(block: ir.Block) -> None:
    """Say which variables of dataflow blocks are seen outside of them."""
    for op in own_operations(block):
        number = block_number(op)
        if number < 0:
            continue
        seen = any(
            block_number(user) != number
            for result in op.operation.results
            for user in users_of(result)
        )
        attributes = op.operation.attributes
        if seen:
            attributes[names.OUTPUT] = ir.UnitAttr.get()
        elif names.OUTPUT in attributes:
            del attributes[names.OUTPUT]
