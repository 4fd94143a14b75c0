"""``relax-convert-to-dataflow``: runs of pure bindings become dataflow blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallDpsPackedOp
from relax_mlir.graphs import (
    PACK,
    block_number,
    blocks_of,
    graph_functions,
    is_pure,
    operations_of,
    users_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import to_attribute
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
        pure = {f.name.value for f in graph_functions(module) if _says_pure(f)}
        for function in graph_functions(module):
            number = 1 + max(map(block_number, operations_of(function)), default=-1)
            for block in blocks_of(function):
                for run in _runs(block, pure):
                    taken = {block_number(op) for op in run if block_number(op) >= 0}
                    if len(run) >= self.min_size or taken:
                        for op in run:
                            op.operation.attributes[names.BLOCK] = to_attribute(number)
                        number += 1
                mark_outputs(block)


def _says_pure(function: ir.OpView) -> bool:
    return names.IMPURE not in function.attributes


def _runs(block: ir.Block, pure: set[str]) -> Iterator[list[ir.OpView]]:
    """The longest runs of pure bindings."""
    run: list[ir.OpView] = []
    for op in own_operations(block):
        if not _is_binding(op):
            continue
        if _is_pure_binding(op, pure):
            run.append(op)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _is_binding(op: ir.OpView) -> bool:
    return names.NAME in op.operation.attributes


def _is_pure_binding(op: ir.OpView, pure: set[str]) -> bool:
    if isinstance(op, CallDpsPackedOp):
        return True
    if isinstance(op, graph.CallOp):
        return ir.FlatSymbolRefAttr(op.attributes["callee"]).value in pure
    if isinstance(op, graph.MatchCastOp):
        return True
    return is_pure(op) or op.operation.name == PACK


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
