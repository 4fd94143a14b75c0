"""Maps are written into the blocks that read, or write, what they work on."""

from collections.abc import Container, Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp
from relax_mlir.indexing import dims_in
from relax_mlir.rewriting import clone, erase, replace, walk
from relax_mlir.traversal import only_store, own_operations

__all__ = ["distribute_maps", "inline_maps", "uses_of"]


def inline_maps(function: func.FuncOp) -> None:
    """Write maps into the places that read them.

    Which ones is decided first to last, since what a map reads makes it dear; they are
    written last to first, so that each is copied once, not with all that leads to it.
    """
    chosen: list[AllocBufferOp] = []
    dear: set[BlockOp] = set()
    for op in list(own_operations(function.entry_block)):
        if isinstance(op, AllocBufferOp):
            writer, loads = uses_of(op)
            if writer is not None and _may_inline(writer, loads, dear):
                chosen.append(op)
                if writer in dear or not _is_cheap(writer):
                    dear.add(_block_of(loads[0]))
    for op in reversed(chosen):
        writer, loads = uses_of(op)
        assert writer is not None
        for same in _by_block(loads):
            _inline_loads(writer, same)
        erase(writer)
        erase(op)


def _by_block(loads: Sequence[ir.OpView]) -> list[list[ir.OpView]]:
    """Loads that stand in one block, in order."""
    found: dict[ir.Block, list[ir.OpView]] = {}
    for load in loads:
        found.setdefault(load.operation.block, []).append(load)
    return [
        [op for op in own_operations(block) if op in same] if len(same) > 1 else same
        for block, same in found.items()
    ]


def uses_of(alloc: AllocBufferOp) -> "tuple[BlockOp | None, list[ir.OpView]]":
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


def _may_inline(
    writer: BlockOp, loads: list[ir.OpView], dear: Container[BlockOp]
) -> bool:
    """Whether a map is computed no more often in the place that reads it, or is cheap.

    Args:
        writer: the map; loads: of what it writes.
        dear: blocks that costly maps are written into.
    """
    if writer.has_init or "R" in writer.kinds.value or not loads:
        return False
    if not _stores_at_axes(writer):
        return False
    places = {tuple(list(load.operands)[1:]) for load in loads}
    readers = {_block_of(load) for load in loads}
    if len(places) > 1 or len(readers) > 1:
        return False
    if _reads_each_once(loads[0], next(iter(readers))):
        return True
    return writer not in dear and _is_cheap(writer)


def _stores_at_axes(writer: BlockOp) -> bool:
    block = writer.body.blocks[0]
    store = only_store(block)
    return store is not None and list(store.operands)[2:] == list(block.arguments)


def _reads_each_once(load: ir.OpView, reader: BlockOp) -> bool:
    """Whether the load's indices are the reader's axes, each once."""
    axes = list(reader.body.blocks[0].arguments)
    indices = list(load.operands)[1:]
    return len(indices) == len(axes) and all(a in indices for a in axes)


_COSTLY = ("math.", "arith.divf", "arith.remf", "arith.divsi", "arith.remsi")


def _is_cheap(writer: BlockOp) -> bool:
    return not any(o.operation.name.startswith(_COSTLY) for o in walk(writer))


def _inline_loads(writer: BlockOp, loads: Sequence[ir.OpView]) -> None:
    """Compute the element where it was first read."""
    first = loads[0]
    source = writer.body.blocks[0]
    mapping = dict(zip(source.arguments, list(first.operands)[1:], strict=True))
    with ir.InsertionPoint(first), first.location:
        for op in own_operations(source):
            if op.operation.name == "memref.store":
                value = mapping.get(op.operands[0], op.operands[0])
                for load in loads:
                    replace(load, value)
                return
            clone(op, mapping)


def distribute_maps(function: func.FuncOp) -> None:
    """Write a map to where its input is written, in parts or in whatever order."""
    dims = dims_in(function)
    for op in list(own_operations(function.entry_block)):
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
    if only_store(block) is None:
        return False
    entry = list(own_operations(reader.operation.parent.opview.entry_block))
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
        for op in list(own_operations(block))[:-1]:
            if op.operation.name == "memref.load" and op.operands[0] == buffer:
                mapping[op.results[0]] = value
            else:
                clone(op, mapping)
    erase(store)
