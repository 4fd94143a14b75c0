"""Traversal of operations: all nested ones, or those of one block only.

MLIR's ``Block.operations`` excludes operations in nested branches and loops, so an
analysis that uses it misses accesses under an ``scf.if``. Code outside of this module
chooses explicitly: :func:`walk`, or :func:`own_operations` where nested regions are
handled by the caller, or cannot matter. ``make lint`` rejects the bare attribute.
"""

from collections.abc import Iterator

from mlir import ir

__all__ = [
    "blocks_of",
    "only_store",
    "operations_named",
    "operations_of",
    "own_operations",
    "values_read",
    "walk",
]

Root = ir.Operation | ir.OpView | ir.Block


def walk(root: Root) -> Iterator[ir.OpView]:
    """All operations below ``root``, in pre-order, from a snapshot of each block."""
    for block in _blocks_in(root):
        for op in list(block.operations):
            yield op
            if len(
                op.regions
            ):  # few have any, and a generator costs more than the test
                yield from walk(op)


def blocks_of(root: ir.Operation | ir.OpView) -> Iterator[ir.Block]:
    """All blocks below an operation, in pre-order."""
    for block in _blocks_in(root):
        yield block
        for op in list(block.operations):
            if len(op.regions):
                yield from blocks_of(op)


def operations_of(root: ir.Operation | ir.OpView) -> Iterator[ir.OpView]:
    """All operations below another, block by block, from a snapshot of each block.

    Unlike :func:`walk`, it visits nested blocks after the block that holds them, and the
    operation yielded last may be erased, with its regions.
    """
    for block in blocks_of(root):
        yield from list(block.operations)


def own_operations(block: ir.Block) -> ir.OperationList:
    """The operations of one block, excluding those in nested regions."""
    return block.operations


def operations_named(root: Root, name: str) -> list[ir.OpView]:
    """The operations with a name below ``root``, including those in branches and loops."""
    return [op for op in walk(root) if op.operation.name == name]


def only_store(block: ir.Block) -> ir.OpView | None:
    """The only ``memref.store`` of a block, if it is unconditional; None otherwise."""
    stores = operations_named(block, "memref.store")
    is_only = len(stores) == 1 and stores[0].operation.block == block
    return stores[0] if is_only else None


def values_read(op: ir.Operation | ir.OpView) -> list[ir.Value]:
    """The operands of an operation, and the values that its regions capture."""
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
