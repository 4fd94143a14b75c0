"""``tvm.relax.testing.transform``: test entry points of dataflow analyses and mutators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, DataflowBlock, Var
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.analysis.inplace import (
    AliasAnalysis,
    InplaceOpportunity,
    LiveRanges,
    find_inplace_opportunities,
    live_ranges,
)
from relax_mlir.tvm.relax.transform.dataflow_use_inplace_calls import InplaceCalls
from relax_mlir.tvm.relax.transform.function_rewriting import rewrite_functions

__all__ = [
    "ApplyEmptyCppMutator",
    "InplaceOpportunity",
    "dataflow_alias_analysis",
    "dataflow_inplace_analysis",
    "dataflow_liveness_analysis",
    "dataflow_single_inplace_call",
]


@dataclass(frozen=True)
class ApplyEmptyCppMutator(Pass):
    """Normalizes every expression with an expression mutator that rewrites nothing."""

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, lambda function: PyExprMutator().visit_expr(function))


def dataflow_liveness_analysis(block: DataflowBlock) -> LiveRanges:
    """Live ranges of the variables of a block.

    Returns:
        First and last binding index of each range; -1 is before the block, the number of
        bindings is after it.
    """
    return live_ranges(block)


def dataflow_alias_analysis(
    block: DataflowBlock, inputs: Sequence[Var]
) -> tuple[dict[Var, set[int]], dict[int, list[set[int]]]]:
    """Alias sets of the values of a block.

    Args:
        block: the block.
        inputs: variables defined before the block that do not alias each other.

    Returns:
        The ids of the memory locations of each variable, -1 for an unknown one; and for
        the locations that are tuples, the locations of their elements.
    """
    aliases = AliasAnalysis(block, inputs)
    return aliases.locations, aliases.tuples


def dataflow_inplace_analysis(
    block: DataflowBlock, inputs: Sequence[Var], mod: IRModule
) -> tuple[list[tuple[int, set[int]]], list[tuple[int, set[int]]]]:
    """Bindings that may be computed in place of an argument.

    Args:
        block: the block.
        inputs: variables defined before the block that do not alias each other and may be
            overwritten.
        mod: the module of the block; unused.

    Returns:
        Pairs of a binding index and argument indices: first for arguments that are large
        enough, then for arguments of the same shape.
    """
    large, exact = find_inplace_opportunities(block, inputs)
    return _index_pairs(large), _index_pairs(exact)


def _index_pairs(
    opportunities: Sequence[InplaceOpportunity],
) -> list[tuple[int, set[int]]]:
    return [(each.binding_idx, set(each.arg_idxs)) for each in opportunities]


def dataflow_single_inplace_call(
    mod: IRModule, call: Call, inplace_indices: Sequence[int]
) -> tuple[Call, IRModule]:
    """Rewrite one call to an in-place call; also returns the module with its PrimFunc."""
    rewriter = InplaceCalls(mod)
    inplace_call = rewriter.inplace(call, inplace_indices)
    return inplace_call, rewriter.builder_.get()
