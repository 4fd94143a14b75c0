"""``tir-fuse``: the calls of a primitive function become one tensor program."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, Buffer, Builder, Index
from relax_mlir.indexing import dims_in
from relax_mlir.module import IRModule
from relax_mlir.renaming import Renaming, by_symbol, dims_of, whole
from relax_mlir.rewriting import Pass, clone, erase, replace, walk

__all__ = ["Fuse"]


@dataclass(frozen=True)
class Fuse(Pass):
    """Merge the tensor programs that a primitive function calls into one.

    A map whose result one place reads is written into that place, with its axes replaced
    by the indices there, unless it is costly and would be computed more than once. A map
    of what is written in parts or in another order, as by a concatenation, is written into
    the blocks that do so. Equal programs become one; programs that nobody calls are dropped.
    """

    def run(self, module: IRModule) -> None:
        programs = {f.name.value: f for f in module.functions()}
        callers: dict[str, list[ir.OpView]] = {}
        for op in walk(module.mlir.operation):
            if op.operation.name == "func.call":
                callers.setdefault(op.attributes["callee"].value, []).append(op)
        merged: dict[str, str] = {}
        for function in module.functions():
            if "relax.primitive" in function.attributes:
                fused, sizes = _merge(function, programs)
                callee = _first_equal(fused, function, merged)
                for call in callers.get(function.name.value.removesuffix(_OLD), []):
                    _call_program(call, function, callee, sizes)
                erase(function)
        _drop_unused(module)


_OLD = ".old"


def _merge(
    primitive: func.FuncOp, programs: dict[str, func.FuncOp]
) -> tuple[func.FuncOp, list[Dim]]:
    """One program in place of the calls of ``primitive``, and the values of its symbols."""
    block = primitive.entry_block
    *operations, terminator = block.operations
    inputs, result = list(block.arguments), terminator.operands[0]
    calls = [o for o in operations if o.operation.name == "relax.call_tir"]
    renaming = _renaming(inputs, result, calls)
    with ir.InsertionPoint(primitive), primitive.location:
        builder = Builder(
            primitive.name.value + ".fused",
            inputs,
            [renaming.type(v.type) for v in inputs],
            [renaming.type(result.type)],
            renaming.symbols or None,
        )
        buffers = dict(zip(inputs, builder.inputs, strict=True))
        for call in calls:
            callee = programs[call.attributes["callee"].value]
            buffers[call.results[0]] = _inline_call(
                builder, call, callee, buffers, renaming
            )
        fused = builder.finish(buffers[result])
    _inline_maps(fused)
    _distribute_maps(fused)
    return fused, renaming.sizes(builder.symbols)


def _renaming(
    inputs: Sequence[ir.Value], result: ir.Value, calls: Sequence[ir.OpView]
) -> Renaming:
    """Names for whole dimensions if no call needs more of them than that, else symbols."""
    dims = dims_of([*(v.type for v in inputs), result.type])
    renaming = whole(dims)
    needed = [
        d for call in calls for d in tensors.python_value(call.attributes["sizes"])
    ]
    inner = dims_of([call.results[0].type for call in calls])
    if all(isinstance(d, int) or d in renaming.dims for d in [*needed, *inner]):
        return renaming
    return by_symbol([*dims, *needed, *inner])


def _inline_call(
    builder: Builder,
    call: CallTirOp,
    callee: func.FuncOp,
    buffers: dict[ir.Value, Buffer],
    renaming: Renaming,
) -> Buffer:
    """Copy the callee's operations; its destination becomes a buffer of the program."""
    type_ = renaming.type(call.results[0].type)
    out = builder.alloc(tensors.shape_of(type_), tensors.dtype_of(type_))
    arguments = list(callee.arguments)
    sources = [buffers[v].value for v in tensors.elements(call.operands[0])]
    sizes = [
        Index.value_of(builder.dim(renaming.dim(d)))
        for d in tensors.python_value(call.attributes["sizes"])
    ]
    mapping = dict(zip(arguments, [*sources, out.value, *sizes], strict=True))
    with ir.InsertionPoint(builder.function.entry_block):
        for op in list(callee.entry_block.operations)[:-1]:
            clone(op, mapping)
    return out


def _inline_maps(function: func.FuncOp) -> None:
    """Write maps into the places that read them, first to last."""
    for op in list(function.entry_block.operations):
        if isinstance(op, AllocBufferOp):
            writer, loads = _uses(op)
            if writer is not None and _may_inline(writer, loads):
                for load in loads:
                    _inline_load(writer, load)
                erase(writer)
                erase(op)


def _uses(alloc: AllocBufferOp) -> "tuple[BlockOp | None, list[ir.OpView]]":
    """The one block that writes a buffer, and every load of it."""
    writers, loads = [], []
    for use in alloc.buffer.uses:
        owner = use.owner
        if owner.operation.name == "memref.store":
            writers.append(owner)
        elif owner.operation.name == "memref.load":
            loads.append(owner)
        else:
            return None, []
    if len(writers) != 1:
        return None, []
    return _block_of(writers[0]), loads


def _block_of(op: ir.OpView) -> BlockOp:
    while not isinstance(op, BlockOp):
        op = op.operation.parent.opview
    return op


def _may_inline(writer: BlockOp, loads: list[ir.OpView]) -> bool:
    """Whether a map is computed no more often in the place that reads it."""
    if writer.has_init or "R" in writer.kinds.value or not loads:
        return False
    if not _stores_at_axes(writer):
        return False
    places = {tuple(list(load.operands)[1:]) for load in loads}
    readers = {_block_of(load) for load in loads}
    if len(places) > 1 or len(readers) > 1:
        return False
    return _reads_each_once(loads[0], next(iter(readers))) or _is_cheap(writer)


def _stores_at_axes(writer: BlockOp) -> bool:
    block = writer.body.blocks[0]
    stores = [o for o in block.operations if o.operation.name == "memref.store"]
    if len(stores) != 1:
        return False
    indices = list(stores[0].operands)[2:]
    return indices == list(block.arguments)


def _reads_each_once(load: ir.OpView, reader: BlockOp) -> bool:
    """Whether the load's indices are the reader's axes, each once."""
    axes = list(reader.body.blocks[0].arguments)
    indices = list(load.operands)[1:]
    return len(indices) == len(axes) and all(a in indices for a in axes)


_COSTLY = ("math.", "arith.divf", "arith.remf", "arith.divsi", "arith.remsi")


def _is_cheap(writer: BlockOp) -> bool:
    return not any(o.operation.name.startswith(_COSTLY) for o in walk(writer))


def _inline_load(writer: BlockOp, load: ir.OpView) -> None:
    """Compute the element where it was read."""
    source = writer.body.blocks[0]
    mapping = dict(zip(source.arguments, list(load.operands)[1:], strict=True))
    with ir.InsertionPoint(load), load.location:
        for op in source.operations:
            name = op.operation.name
            if name == "memref.store":
                replace(load, mapping.get(op.operands[0], op.operands[0]))
                return
            clone(op, mapping)


def _distribute_maps(function: func.FuncOp) -> None:
    """Write a map to where its input is written, in parts or in whatever order."""
    dims = dims_in(function)
    for op in list(function.entry_block.operations):
        if not isinstance(op, AllocBufferOp):
            continue
        accesses = [use.owner for use in op.buffer.uses]
        stores = [a for a in accesses if a.operation.name == "memref.store"]
        loads = [a for a in accesses if a.operation.name == "memref.load"]
        if not stores or len(stores) + len(loads) != len(accesses):
            continue
        readers = {_block_of(load) for load in loads}
        if len(readers) != 1:
            continue
        reader = readers.pop()
        sizes = [dims.get(e, e) for e in reader.axis_extents()]
        is_whole = sizes == list(tensors.python_value(op.attributes["shape"]))
        if is_whole and _may_distribute(stores, loads):
            for store in stores:
                _write_into(store, reader, op.buffer)
            erase(reader)
            erase(op)


def _may_distribute(stores: Sequence[ir.OpView], loads: Sequence[ir.OpView]) -> bool:
    """Whether one map reads each element of a buffer just once, and can do so earlier."""
    reader = _block_of(loads[0])
    block = reader.body.blocks[0]
    if any("R" in b.kinds.value for b in (reader, *map(_block_of, stores))):
        return False
    if any(list(load.operands)[1:] != list(block.arguments) for load in loads):
        return False
    if len([o for o in block.operations if o.operation.name == "memref.store"]) != 1:
        return False
    entry = list(reader.operation.parent.opview.entry_block.operations)
    first = min(entry.index(_block_of(store)) for store in stores)
    return all(
        _is_ready(value, reader, entry[:first], loads[0].operands[0])
        for op in walk(reader)
        for value in op.operands
    )


def _is_ready(
    value: ir.Value, reader: BlockOp, before: Sequence[ir.OpView], parts: ir.Value
) -> bool:
    """Whether a value that a block uses exists before the blocks that write its input."""
    owner = value.owner
    if isinstance(owner, ir.Block) or value == parts:
        return True
    if owner.parent != reader.operation.parent:  # inside the block
        return True
    if isinstance(owner.opview, AllocBufferOp):
        stores = [u.owner for u in value.uses if u.owner.name == "memref.store"]
        writers = {_block_of(s.opview) for s in stores}
        return owner.opview in before and all(
            w in before or w == reader for w in writers
        )
    return owner.opview in before


def _write_into(store: ir.OpView, reader: BlockOp, buffer: ir.Value) -> None:
    """Compute the map's element where a part's element is stored, and store that."""
    value, _, *where = store.operands
    block = reader.body.blocks[0]
    mapping = dict(zip(block.arguments, where, strict=True))
    with ir.InsertionPoint(store), store.location:
        for op in list(block.operations)[:-1]:
            if op.operation.name == "memref.load" and op.operands[0] == buffer:
                mapping[op.results[0]] = value
            else:
                clone(op, mapping)
    erase(store)


def _first_equal(
    fused: func.FuncOp, primitive: func.FuncOp, merged: dict[str, str]
) -> str:
    """Give the program its primitive's name; the name of the first program equal to it."""
    name = primitive.name.value
    primitive.attributes["sym_name"] = ir.StringAttr.get(name + _OLD)
    fused.attributes["sym_name"] = ir.StringAttr.get("fused")
    text = fused.operation.get_asm(use_local_scope=True, assume_verified=True)
    fused.attributes["sym_name"] = ir.StringAttr.get(name)
    return merged.setdefault(text, name)


def _call_program(
    call: ir.OpView, primitive: func.FuncOp, callee: str, sizes: Sequence[Dim]
) -> None:
    """Call the program where the primitive function was called."""
    theirs = dims_of([v.type for v in primitive.arguments])
    ours = dims_of([v.type for v in call.operands])
    names = {} if theirs == ours else shapes.bind_shape(theirs, ours)
    with ir.InsertionPoint(call), call.location:
        new = CallTirOp(
            list(call.operands),
            callee=callee,
            sizes=tensors.shape_attr([shapes.substitute(d, names) for d in sizes]),
            results=[call.results[0].type],
        )
    replace(call, new.result)


def _drop_unused(module: IRModule) -> None:
    """Erase tensor programs that nothing calls."""
    called = {
        op.attributes["callee"].value
        for op in walk(module.mlir.operation)
        if op.operation.name in ("relax.call_tir", "func.call")
    }
    for function in module.functions():
        is_program = "tir.prim_func" in function.attributes
        if (
            is_program
            and function.name.value not in called
            and len(module.functions()) > 1
        ):
            erase(function)
