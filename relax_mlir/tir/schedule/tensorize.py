"""The primitive that lets an intrinsic do what a block does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import ScheduleError
from relax_mlir.module import IRModule
from relax_mlir.objects.buffer import BufferRegion
from relax_mlir.objects.memrefs import matched_part
from relax_mlir.objects.prim import Range, Var
from relax_mlir.objects.term_writer import TermWriter
from relax_mlir.tir.schedule import accesses, edit, legality, tree
from relax_mlir.tir.schedule.buffers import buffer_term
from relax_mlir.tir.schedule.indices import Indices, emit_constant
from relax_mlir.tir.schedule.matching import Matcher
from relax_mlir.tir.schedule.state import ScheduleState
from relax_mlir.tir.schedule.tensor_intrin import TensorIntrin
from relax_mlir.traversal import own_operations

__all__ = ["tensorize"]


def tensorize(state: ScheduleState, block: ir.Operation, intrin: TensorIntrin) -> None:
    """Let an intrinsic do what a block does; see :meth:`Schedule.tensorize`."""
    where = f"tensorize: {tree.describe(block)}"
    legality.check_not_root(block, where)
    desc, impl = _module(intrin.desc), _module(intrin.impl)
    described = desc.func_op("main").operation
    matcher = Matcher(where)
    matcher.region(tree.body(block), tree.body(described))
    arguments = list(tree.body(described).arguments)[: len(intrin.desc.params)]
    unused = [a for a in arguments if a not in matcher.buffers]
    if unused:
        raise ScheduleError(
            f"{where}: the description does not use buffer "
            f"`{accesses.buffer_name(unused[0])}`: expected all its parameters in it"
        )
    found = [matcher.buffers[a] for a in arguments]
    boxes = [(buffer, matcher.bases[buffer]) for buffer in found]
    _fill(state, block, intrin, impl.func_op("main").operation, boxes, matcher.indices)
    edit.localise(block)


def _module(program: Any) -> IRModule:  # Any: PrimFunc
    """A module with a program alone, its arithmetic where it is used."""
    made = IRModule({"main": program.with_attr("global_symbol", "main")})
    with made.context, ir.Location.unknown():
        edit.localise(made.func_op("main").operation)
    return made


def _fill(
    state: ScheduleState,
    block: ir.Operation,
    intrin: TensorIntrin,
    impl: ir.Operation,
    boxes: Sequence[tuple[ir.Value, Sequence[Dim]]],
    indices: Indices,
) -> None:
    """Put what the implementation does in place of what the block does."""
    for op in tree.children(block):
        state.erase(op)
    body = tree.body(block)
    rewriting.erase_dead(body, lambda op: op.name != "gpu.yield")
    mapping: dict[ir.Value, ir.Value] = {}
    buffers = [intrin.impl.buffer_map[param] for param in intrin.impl.params]
    arguments = list(tree.body(impl).arguments)
    with edit.point_before(edit.terminator(body)):
        for argument, buffer, (source, base) in zip(
            arguments, buffers, boxes, strict=False
        ):
            terms = TermWriter()
            places = [Var(f"o{n}", "int32") for n in range(len(base))]
            for var, dim in zip(places, base, strict=True):
                terms.define(var, indices.emit(dim))
            sizes = [1] * (len(base) - len(buffer.shape)) + list(buffer.shape)
            runs = [
                Range.from_min_extent(p, s) for p, s in zip(places, sizes, strict=True)
            ]
            region = BufferRegion(buffer_term(terms, source), runs)
            mapping[argument] = matched_part(terms, source, buffer, region)
            _map_strides(buffer, mapping[argument], arguments, mapping)
        *operations, _ = own_operations(tree.body(impl))
        for op in operations:
            rewriting.clone(op, mapping)
    for key, value in tree.annotations_of(impl).items():
        edit.set_annotation(block, key, value)


def _map_strides(
    buffer: Any,  # Any: Buffer
    part: ir.Value,
    arguments: Sequence[ir.Value],
    mapping: dict[ir.Value, ir.Value],
) -> None:
    """Give the strides that the implementation mentions their values."""
    strides, _ = ir.MemRefType(part.type).get_strides_and_offset()
    known = Indices()
    names = {known.symbol(a): a for a in arguments if isinstance(a.type, ir.IndexType)}
    for term, stride in zip(buffer.strides, strides, strict=False):
        if isinstance(term, Var) and term.name in names:
            mapping[names[term.name]] = emit_constant(stride)
