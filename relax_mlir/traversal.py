"""Traversal of regions: every nested operation, or the operations of one block alone.

``Block.operations`` of MLIR leaves out what branches and loops in the block hold, so an
analysis that uses it misses accesses behind an ``scf.if``. Code outside of this module says
which of the two it wants: :func:`walk`, or :func:`own_operations` where nested regions are
handled by the caller, or cannot matter. ``make lint`` refuses the bare attribute.
"""

from collections.abc import Iterator

from mlir import ir

__all__ = ["blocks_of", "named", "only_store", "own_operations", "values_read", "walk"]

Root = ir.Operation | ir.OpView | ir.Block


def walk(root: Root) -> Iterator[ir.OpView]:
    """All operations below ``root``, outer first, from a snapshot of each block."""
    for block in _blocks_in(root):
        for op in list(block.operations):
            yield op
            if len(
                op.regions
            ):  # few have any, and a generator costs more than the look
                yield from walk(op)


def blocks_of(root: ir.Operation | ir.OpView) -> Iterator[ir.Block]:
    """All blocks below an operation, outer first."""
    for block in _blocks_in(root):
        yield block
        for op in list(block.operations):
            if len(op.regions):
                yield from blocks_of(op)


def own_operations(block: ir.Block) -> ir.OperationList:
    """The operations of one block, without those in nested regions."""
    return block.operations


def named(root: Root, name: str) -> list[ir.OpView]:
    """The operations of one name below ``root``, in branches and loops too."""
    return [op for op in walk(root) if op.operation.name == name]


def only_store(block: ir.Block) -> ir.OpView | None:
    """The one ``memref.store`` of a block, if it is unconditional; None of others."""
    stores = named(block, "memref.store")
    is_only = len(stores) == 1 and stores[0].operation.block == block
    return stores[0] if is_only else None


def values_read(op: ir.Operation | ir.OpView) -> list[ir.Value]:
    """The operands of an operation, and what its regions capture from outside."""
    inside = list(walk(op))
    own = {result for inner in inside for result in inner.operation.results}
    own.update(argument for block in blocks_of(op) for argument in block.arguments)
    read = [value for inner in inside for value in inner.operation.operands]
    return [*op.operands, *(value for value in read if value not in own)]


def _blocks_in(root: Root) -> Iterator[ir.Block]:
    if isinstance(root, ir.Block):
        yield root
        return
    for region in root.regions:
        yield from region.blocks
