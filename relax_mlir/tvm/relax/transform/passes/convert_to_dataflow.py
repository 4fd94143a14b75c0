"""``relax-convert-to-dataflow``: groups consecutive pure bindings into dataflow blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, operations_of, own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.rewrite.functions import dataflow_block_number, graph_functions
from relax_mlir.rewrite.patterns import Pass

__all__ = ["ConvertToDataflow", "mark_dataflow_outputs"]


@dataclass(frozen=True)
class ConvertToDataflow(Pass):
    """Groups consecutive pure bindings into dataflow blocks.

    Args:
        min_size: the minimal number of bindings of a new block.
    """

    min_size: int = 2

    def run(self, module: IRModule) -> None:
        effects = EffectAnalysis(module.mlir.operation)
        for function in graph_functions(module):
            block_number = 1 + max(
                map(dataflow_block_number, operations_of(function)), default=-1
            )
            for block in blocks_of(function):
                for run in _runs(block, effects):
                    existing_blocks = {
                        dataflow_block_number(op)
                        for op in run
                        if dataflow_block_number(op) >= 0
                    }
                    if len(run) >= self.min_size or existing_blocks:
                        for op in run:
                            op.operation.attributes[function_attributes.BLOCK] = (
                                to_attribute(block_number)
                            )
                        block_number += 1
                mark_dataflow_outputs(block)


def _runs(block: ir.Block, effects: EffectAnalysis) -> Iterator[list[ir.OpView]]:
    """Yields the maximal runs of pure bindings."""
    run: list[ir.OpView] = []
    for op in own_operations(block):
        if not _is_binding(op):
            continue
        if _is_dataflow(op, effects):
            run.append(op)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _is_binding(op: ir.OpView) -> bool:
    return function_attributes.NAME in op.operation.attributes


def _is_dataflow(op: ir.OpView, effects: EffectAnalysis) -> bool:
    """Returns whether an operation is pure and no conditional: dataflow has no branches."""
    return not isinstance(op, graph.IfOp) and effects.of(op).is_pure


def mark_dataflow_outputs(block: ir.Block) -> None:
    """Marks the variables of dataflow blocks that are used outside of them."""
    for op in own_operations(block):
        block_number = dataflow_block_number(op)
        if block_number < 0:
            continue
        is_output = any(
            dataflow_block_number(user) != block_number
            for result in op.operation.results
            for user in users_of(result)
        )
        attributes = op.operation.attributes
        if is_output:
            attributes[function_attributes.OUTPUT] = ir.UnitAttr.get()
        elif function_attributes.OUTPUT in attributes:
            del attributes[function_attributes.OUTPUT]
