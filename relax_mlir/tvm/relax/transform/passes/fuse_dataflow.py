"""``relax-fuse-dataflow``: operator fusion by post-dominator analysis, as in TVM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.tvm_op_pattern import TvmOpPatternKind
from relax_mlir.dialects.relax.core import CallTirOp, TupleGetItemOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of
from relax_mlir.rewrite.functions import (
    dataflow_blocks,
    erase_unused_inline,
    graph_functions,
    leaves_of,
)
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.outline import Outliner, fused_name
from relax_mlir.tvm.relax.transform.passes.annotate_tir_op_pattern import (
    annotated_pattern,
)
from relax_mlir.tvm.relax.transform.post_dominators import DataflowGraph, partition

__all__ = ["FuseDataflow"]


@dataclass(frozen=True)
class FuseDataflow(Pass):
    """Groups bindings of dataflow blocks into primitive functions by post-dominator analysis.

    As TVM's ``FuseOps``, it takes the op pattern kinds that tensor programs are annotated
    with, and knows none of those without ``op_pattern``; ``relax-fuse-ops`` derives its own.

    Args:
        max_depth: most bindings in one group; the configuration
            ``relax.FuseOps.max_depth`` of the pass context overrides it.
        level: 0 fuses nothing; by default, the level of the pass context.
        lift_constants: whether constants become parameters of the fused functions.
    """

    known_as = "FuseOps"
    max_depth: int = 256
    level: int = -1
    lift_constants: bool = True

    def run(self, module: IRModule) -> None:
        context = PassContext.current()
        if (context.opt_level if self.level < 0 else self.level) == 0:
            return
        limit = int(context.config.get("relax.FuseOps.max_depth", self.max_depth))
        patterns = _patterns(module)
        outliner = Outliner(module, lift_constants=self.lift_constants)
        for function in graph_functions(module):
            if function_attributes.is_primitive(function):
                continue
            for block in blocks_of(function):
                for bindings in dataflow_blocks(block):
                    for members in _groups(bindings, patterns, limit):
                        outliner.outline(
                            members, fused_name(members), {"Primitive": True}
                        )
            erase_unused_inline(function)


def _patterns(module: IRModule) -> Mapping[str, TvmOpPatternKind]:
    """The annotated op pattern kinds of tensor programs; opaque without annotation."""
    programs = [f for f in module.func_ops() if function_attributes.is_prim_func(f)]
    found: dict[str, TvmOpPatternKind] = {}
    for program in programs:
        number = annotated_pattern(program)
        found[_name(program)] = (
            TvmOpPatternKind.OPAQUE if number is None else TvmOpPatternKind(number)
        )
    return found


def _name(function: func.FuncOp) -> str:
    return function.name.value


def _groups(
    bindings: Sequence[ir.OpView],
    patterns: Mapping[str, TvmOpPatternKind],
    max_ops: int,
) -> list[list[ir.OpView]]:
    """The groups of more than one binding, ordered by their last binding."""
    graph = DataflowGraph()
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


def _add(
    graph: DataflowGraph, op: ir.OpView, patterns: Mapping[str, TvmOpPatternKind]
) -> None:
    is_output = function_attributes.OUTPUT in op.operation.attributes
    pattern = _pattern(op, patterns)
    node = graph.add(op.operation.results[0], pattern, is_external=is_output)
    for operand in op.operation.operands:
        for leaf in leaves_of(operand):
            graph.add_use(leaf, node, pattern)


def _pattern(
    op: ir.OpView, patterns: Mapping[str, TvmOpPatternKind]
) -> TvmOpPatternKind:
    if isinstance(op, TupleGetItemOp):
        return TvmOpPatternKind.INJECTIVE
    if isinstance(op, CallTirOp):
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        return patterns.get(callee, TvmOpPatternKind.OPAQUE)
    return TvmOpPatternKind.OPAQUE
