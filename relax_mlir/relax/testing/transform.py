"""Passes that tests alone have use for: ``tvm.relax.testing.transform``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, DataflowBlock, Var
from relax_mlir.relax.analysis.inplace import (
    Aliases,
    InplaceOpportunity,
    LiveRanges,
    find_inplace_opportunities,
    live_ranges,
)
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.dataflow_use_inplace_calls import InplaceCalls
from relax_mlir.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.rewriting import Pass

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
    """Bring every expression to normal form, and rewrite nothing else."""

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, lambda function: PyExprMutator().visit_expr(function))


def dataflow_liveness_analysis(block: DataflowBlock) -> LiveRanges:
    """From where to where each variable of a block is needed.

    Returns:
        Numbers of bindings; -1 in front of the block, their number behind it.
    """
    return live_ranges(block)


def dataflow_alias_analysis(
    block: DataflowBlock, inputs: Sequence[Var]
) -> tuple[dict[Var, set[int]], dict[int, list[set[int]]]]:
    """Which pieces of memory the values of a block may lie in.

    Args:
        block: the block.
        inputs: variables from in front of it that share no memory.

    Returns:
        The numbers of the pieces of each variable, -1 for any other; and of the pieces
        that are tuples, those of their elements.
    """
    aliases = Aliases(block, inputs)
    return aliases.places, aliases.tuples


def dataflow_inplace_analysis(
    block: DataflowBlock, inputs: Sequence[Var], mod: IRModule
) -> tuple[list[tuple[int, set[int]]], list[tuple[int, set[int]]]]:
    """The bindings whose value may be written over an argument.

    Args:
        block: the block.
        inputs: variables from in front of it that share no memory, and may be written to.
        mod: the module that the block is of.

    Returns:
        Numbers of bindings and arguments: those of arguments that are large enough, and
        those of arguments of the very shape.
    """
    large, exact = find_inplace_opportunities(block, inputs)
    return _listed(large), _listed(exact)


def _listed(found: Sequence[InplaceOpportunity]) -> list[tuple[int, set[int]]]:
    return [(each.binding_idx, set(each.arg_idxs)) for each in found]


def dataflow_single_inplace_call(
    mod: IRModule, call: Call, inplace_indices: Sequence[int]
) -> tuple[Call, IRModule]:
    """A call that writes its results over arguments, and the module with its program."""
    rewriter = InplaceCalls(mod)
    made = rewriter.inplace(call, inplace_indices)
    return made, rewriter.builder_.get()
