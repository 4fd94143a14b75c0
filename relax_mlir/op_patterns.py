"""What kind of tensor program a function is, in the numbers that scripts write.

Unlike :mod:`relax_mlir.kinds`, which says what our own schedules can fuse, this follows
TVM's ``AnnotateTIROpPattern`` rule by rule, so that the numbers are the same.
"""

from collections.abc import Iterator
from enum import IntEnum

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.traversal import own_operations, values_read, walk

__all__ = ["Pattern", "pattern_of"]


class Pattern(IntEnum):
    """The numbers of TVM's kinds of operators."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def pattern_of(function: func.FuncOp) -> Pattern:
    """The kind of a tensor program: the highest of its blocks, as a rule."""
    outputs = _outputs(function)
    kind = Pattern.ELEMENTWISE
    for block in _blocks(function):
        found = _block_pattern(block)
        is_map = found is not Pattern.OPAQUE and "R" not in block.kinds.value
        if is_map and kind is Pattern.REDUCTION and _writes(block, outputs):
            kind = Pattern.OUT_FUSABLE  # such as a softmax
        else:
            kind = max(kind, found)
    return kind


def _outputs(function: func.FuncOp) -> set[ir.Value]:
    """The buffers that a program gets as arguments."""
    return set(function.entry_block.arguments)


def _blocks(root: ir.OpView) -> Iterator[BlockOp]:
    """The innermost blocks of computation, in order."""
    for region in root.operation.regions:
        for block in region.blocks:
            for op in own_operations(block):
                inner = list(_blocks(op)) if op.operation.regions else []
                if isinstance(op, BlockOp) and not inner:
                    yield op
                yield from inner


def _writes(block: BlockOp, buffers: set[ir.Value]) -> bool:
    return any(s.operands[1] in buffers for s in _accesses(block, "memref.store"))


def _accesses(block: BlockOp, name: str) -> list[ir.OpView]:
    """The loads or the stores in the body of a block, conditional ones too."""
    return [o for b in block.body.blocks for o in walk(b) if o.operation.name == name]


def _block_pattern(block: BlockOp) -> Pattern:
    stores = _accesses(block, "memref.store")
    if len(stores) != 1:
        return Pattern.OPAQUE
    axes: list[ir.Value] = list(block.body.blocks[0].arguments)
    target = [_through_casts(v) for v in list(stores[0].operands)[2:]]
    loads = [
        [_through_casts(v) for v in list(load.operands)[1:]]
        for load in _accesses(block, "memref.load")
    ]
    kinds = [_access_pattern(indices, target, axes) for indices in loads]
    highest = max(kinds, default=Pattern.ELEMENTWISE)
    if highest is Pattern.BROADCAST and Pattern.ELEMENTWISE in kinds:
        return Pattern.ELEMENTWISE
    if highest is not Pattern.OPAQUE:
        return highest
    if "R" not in block.kinds.value:
        return Pattern.OPAQUE
    summed = {a for a, k in zip(axes, block.kinds.value, strict=True) if k == "R"}
    if _sums_products(stores[0]) or not all(_is_plain(i, summed, axes) for i in loads):
        return Pattern.OUT_FUSABLE
    return Pattern.REDUCTION


def _through_casts(value: ir.Value) -> ir.Value:
    """An index without the conversions around it."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name in _CASTS:
        value = owner.operands[0]
        owner = value.owner
    return value


_CASTS = frozenset(
    {"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.trunci"}
)


def _access_pattern(
    indices: list[ir.Value], target: list[ir.Value], axes: list[ir.Value]
) -> Pattern:
    """How a load relates to the store, by their indices."""
    if indices == target:
        return Pattern.ELEMENTWISE
    if _is_broadcast(indices, target):
        return Pattern.BROADCAST
    used = {axis for index in indices for axis in _axes_of(index, axes)}
    is_injective = all(t in axes for t in target) and used <= set(target)
    return Pattern.INJECTIVE if is_injective else Pattern.OPAQUE


def _is_broadcast(indices: list[ir.Value], target: list[ir.Value]) -> bool:
    """Whether the indices are some of the target's, in order, and zeros."""
    read = 0
    for index in target:
        while read < len(indices) and _is_zero(indices[read]):
            read += 1
        if read < len(indices) and indices[read] == index:
            read += 1
    return all(map(_is_zero, indices[read:]))


def _is_zero(index: ir.Value) -> bool:
    owner = index.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    return ir.IntegerAttr(owner.attributes["value"]).value == 0


def _axes_of(value: ir.Value, axes: list[ir.Value]) -> set[ir.Value]:
    """The axes that an index is computed from."""
    if value in axes:
        return {value}
    owner = value.owner
    if isinstance(owner, ir.Block):
        return set()
    return {axis for v in values_read(owner) for axis in _axes_of(v, axes)}


def _is_plain(
    indices: list[ir.Value], summed: set[ir.Value], axes: list[ir.Value]
) -> bool:
    """Whether an axis that is summed over is an index by itself wherever it is used."""
    return all(i in axes or not _axes_of(i, axes) & summed for i in indices)


def _sums_products(store: ir.OpView) -> bool:
    """Whether a buffer is added a product of two loads."""
    total = store.operands[0].owner
    if isinstance(total, ir.Block) or total.name not in ("arith.addf", "arith.addi"):
        return False
    for operand in total.operands:
        product = operand.owner
        if isinstance(product, ir.Block):
            continue
        if product.name in ("arith.mulf", "arith.muli"):
            return all(_is_load(factor) for factor in product.operands)
    return False


def _is_load(value: ir.Value) -> bool:
    """Whether a factor is read from a buffer, perhaps through conversions."""
    owner = value.owner
    while not isinstance(owner, ir.Block):
        if owner.name == "memref.load":
            return True
        operands = list(owner.operands)
        if len(operands) != 1:
            return False
        owner = operands[0].owner
    return False
