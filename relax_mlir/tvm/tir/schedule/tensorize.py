"""The ``tensorize`` primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.prim import Range, Var
from relax_mlir.objects.stmt.buffer import BufferRegion
from relax_mlir.objects.write.memref import region_subview
from relax_mlir.objects.write.prim_expr import PrimExprWriter
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import accesses, edit, legality, tree
from relax_mlir.tvm.tir.schedule.buffers import buffer_object
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, emit_constant
from relax_mlir.tvm.tir.schedule.matching import Matcher
from relax_mlir.tvm.tir.schedule.state import ScheduleState
from relax_mlir.tvm.tir.schedule.tensor_intrin import TensorIntrin

__all__ = ["tensorize"]


def tensorize(state: ScheduleState, block: ir.Operation, intrin: TensorIntrin) -> None:
    """Replace the body of a block by an intrinsic; see :meth:`Schedule.tensorize`."""
    where = f"tensorize: {tree.describe(block)}"
    legality.check_not_root(block, where)
    desc, impl = _module(intrin.desc), _module(intrin.impl)
    description = desc.func_op("main").operation
    matcher = Matcher(where)
    matcher.region(tree.body(block), tree.body(description))
    arguments = list(tree.body(description).arguments)[: len(intrin.desc.params)]
    unused = [a for a in arguments if a not in matcher.buffers]
    if unused:
        raise ScheduleError(
            f"{where}: the description does not use buffer "
            f"`{accesses.buffer_name(unused[0])}`: expected all its parameters in it"
        )
    found = [matcher.buffers[a] for a in arguments]
    boxes = [(buffer, matcher.bases[buffer]) for buffer in found]
    _replace_body(
        state, block, intrin, impl.func_op("main").operation, boxes, matcher.indices
    )
    edit.rematerialize_all(block)


def _module(func: Any) -> IRModule:  # Any: PrimFunc
    """A module with one PrimFunc, its arithmetic rematerialised at its uses."""
    made = IRModule({"main": func.with_attr("global_symbol", "main")})
    with made.context, ir.Location.unknown():
        edit.rematerialize_all(made.func_op("main").operation)
    return made


def _replace_body(
    state: ScheduleState,
    block: ir.Operation,
    intrin: TensorIntrin,
    impl: ir.Operation,
    boxes: Sequence[tuple[ir.Value, Sequence[Dim]]],
    indices: IndexSymbols,
) -> None:
    """Replace the body of a block by that of the implementation."""
    for op in tree.children(block):
        state.erase(op)
    body = tree.body(block)
    patterns.erase_dead(body, lambda op: op.name != "gpu.yield")
    mapping: dict[ir.Value, ir.Value] = {}
    buffers = [intrin.impl.buffer_map[param] for param in intrin.impl.params]
    arguments = list(tree.body(impl).arguments)
    with edit.insertion_point_before(edit.terminator(body)):
        for argument, buffer, (source, base) in zip(
            arguments, buffers, boxes, strict=False
        ):
            writer = PrimExprWriter()
            offsets = [Var(f"o{n}", "int32") for n in range(len(base))]
            for var, dim in zip(offsets, base, strict=True):
                writer.define(var, indices.emit(dim))
            sizes = [1] * (len(base) - len(buffer.shape)) + list(buffer.shape)
            runs = [
                Range.from_min_extent(p, s) for p, s in zip(offsets, sizes, strict=True)
            ]
            region = BufferRegion(buffer_object(writer, source), runs)
            mapping[argument] = region_subview(writer, source, buffer, region)
            _map_strides(buffer, mapping[argument], arguments, mapping)
        *operations, _ = own_operations(tree.body(impl))
        for op in operations:
            patterns.clone(op, mapping)
    for key, value in tree.annotations_of(impl).items():
        edit.set_annotation(block, key, value)


def _map_strides(
    buffer: Any,  # Any: Buffer
    view: ir.Value,
    arguments: Sequence[ir.Value],
    mapping: dict[ir.Value, ir.Value],
) -> None:
    """Bind the stride parameters of the implementation to constants."""
    strides, _ = ir.MemRefType(view.type).get_strides_and_offset()
    known = IndexSymbols()
    names = {known.symbol(a): a for a in arguments if isinstance(a.type, ir.IndexType)}
    for stride_var, stride in zip(buffer.strides, strides, strict=False):
        if isinstance(stride_var, Var) and stride_var.name in names:
            mapping[names[stride_var.name]] = emit_constant(stride)
