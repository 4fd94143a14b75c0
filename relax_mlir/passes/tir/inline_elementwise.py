"""Inlining of elementwise blocks into their consumers or producers."""

from collections.abc import Container, Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import size_expressions
from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp
from relax_mlir.ir.traversal import only_store, own_operations, walk
from relax_mlir.rewrite.patterns import clone, erase, replace

__all__ = ["inline_consumers", "inline_producers", "uses_of"]


def inline_producers(function: func.FuncOp) -> None:
    """Inlines elementwise producers into their consumers.

    Candidates are chosen in program order, since an inlined producer makes its consumer
    expensive; they are inlined in reverse order, so that each is copied once, without what was
    inlined into it.
    """
    chosen: list[AllocBufferOp] = []
    expensive: set[BlockOp] = set()
    for op in list(own_operations(function.entry_block)):
        if isinstance(op, AllocBufferOp):
            writer, loads = uses_of(op)
            if writer is not None and _may_inline(writer, loads, expensive):
                chosen.append(op)
                if writer in expensive or not _is_cheap(writer):
                    expensive.add(_block_of(loads[0]))
    for op in reversed(chosen):
        writer, loads = uses_of(op)
        assert writer is not None
        for group in _by_block(loads):
            _inline_loads(writer, group)
        erase(writer)
        erase(op)


def _by_block(loads: Sequence[ir.OpView]) -> list[list[ir.OpView]]:
    """Loads grouped by block, in program order."""
    found: dict[ir.Block, list[ir.OpView]] = {}
    for load in loads:
        found.setdefault(load.operation.block, []).append(load)
    return [
        [op for op in own_operations(block) if op in same] if len(same) > 1 else same
        for block, same in found.items()
    ]


def uses_of(alloc: AllocBufferOp) -> "tuple[BlockOp | None, list[ir.OpView]]":
    """The only block that writes a buffer, and all loads of it."""
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
    writer: BlockOp, loads: list[ir.OpView], expensive: Container[BlockOp]
) -> bool:
    """Whether a producer is cheap, or not recomputed when inlined.

    Args:
        writer: the producer; loads: of its result.
        expensive: blocks that expensive producers are inlined into.
    """
    if writer.has_init or "R" in writer.kinds.value or not loads:
        return False
    if not _stores_at_axes(writer):
        return False
    indices = {tuple(list(load.operands)[1:]) for load in loads}
    readers = {_block_of(load) for load in loads}
    if len(indices) > 1 or len(readers) > 1:
        return False
    if _reads_each_once(loads[0], next(iter(readers))):
        return True
    return writer not in expensive and _is_cheap(writer)


def _stores_at_axes(writer: BlockOp) -> bool:
    block = writer.body.blocks[0]
    store = only_store(block)
    return store is not None and list(store.operands)[2:] == list(block.arguments)


def _reads_each_once(load: ir.OpView, consumer: BlockOp) -> bool:
    """Whether the load's indices are a permutation of the consumer's axes."""
    axes = list(consumer.body.blocks[0].arguments)
    indices = list(load.operands)[1:]
    return len(indices) == len(axes) and all(a in indices for a in axes)


_COSTLY = ("math.", "arith.divf", "arith.remf", "arith.divsi", "arith.remsi")


def _is_cheap(writer: BlockOp) -> bool:
    return not any(o.operation.name.startswith(_COSTLY) for o in walk(writer))


def _inline_loads(writer: BlockOp, loads: Sequence[ir.OpView]) -> None:
    """Computes the producer's element before the first load, and replaces the loads."""
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


def inline_consumers(function: func.FuncOp) -> None:
    """Inlines an elementwise consumer into the blocks that write its input."""
    dims = size_expressions(function)
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
    """Whether one elementwise consumer reads each element once and can run earlier."""
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
    """Whether a value that a block uses is defined before the writers of its input."""
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
    """Computes the consumer's element where its input is stored, and stores that."""
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
