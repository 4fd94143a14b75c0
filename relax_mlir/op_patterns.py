"""What kind of tensor program a function is, in the numbers that scripts write.

Unlike :mod:`relax_mlir.kinds`, which says what our own schedules can fuse, this follows
TVM's ``AnnotateTIROpPattern`` rule by rule, so that the numbers are the same.
"""

from collections.abc import Iterator, Sequence
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
        is_map = found <= Pattern.INJECTIVE
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


def _indices(access: ir.OpView) -> list[ir.Value]:
    """The indices of a load or a store, without conversions."""
    before = 1 if access.operation.name == "memref.load" else 2
    return [_through_casts(v) for v in list(access.operands)[before:]]


def _block_pattern(block: BlockOp) -> Pattern:
    stores = _accesses(block, "memref.store")
    if not stores:
        return Pattern.OPAQUE
    target = _indices(stores[0])
    if not all(_are_same(_indices(store), target) for store in stores[1:]):
        return Pattern.OPAQUE
    loads = _accesses(block, "memref.load")
    kinds = [_access_pattern(load, target) for load in loads]
    highest = max(kinds, default=Pattern.ELEMENTWISE)
    if highest is Pattern.BROADCAST and Pattern.ELEMENTWISE in kinds:
        return Pattern.ELEMENTWISE
    if highest is not Pattern.OPAQUE:
        return highest
    axes: list[ir.Value] = list(block.body.blocks[0].arguments)
    summed = {a for a, k in zip(axes, block.kinds.value, strict=True) if k == "R"}
    if not summed:
        return Pattern.OPAQUE
    if _is_multiply_add(block, stores[-1]):
        return Pattern.OUT_FUSABLE
    if all(_is_plain(index, summed) for load in loads for index in _indices(load)):
        return Pattern.REDUCTION
    return Pattern.OUT_FUSABLE  # such as a pool


def _through_casts(value: ir.Value) -> ir.Value:
    """A value without the conversions around it."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name in _CASTS:
        value = owner.operands[0]
        owner = value.owner
    return value


_CASTS = frozenset(
    f"arith.{name}"
    for name in (
        *("index_cast", "index_castui", "extsi", "extui", "trunci"),
        *("extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui"),
    )
)


def _is_variable(value: ir.Value) -> bool:
    """Whether an index is an axis, a loop variable or a size by itself."""
    return isinstance(value.owner, ir.Block)


def _are_same(indices: Sequence[ir.Value], others: Sequence[ir.Value]) -> bool:
    """Whether two accesses have the same variables as indices; TVM compares no terms."""
    return indices == others and all(map(_is_variable, indices))


def _access_pattern(load: ir.OpView, target: Sequence[ir.Value]) -> Pattern:
    """How a load relates to the store, by their indices."""
    indices = _indices(load)
    if _are_same(indices, target):
        return Pattern.ELEMENTWISE
    if _is_broadcast(load, target):
        return Pattern.BROADCAST
    is_injective = all(map(_is_variable, target)) and _variables(load) <= set(target)
    return Pattern.INJECTIVE if is_injective else Pattern.OPAQUE


def _is_broadcast(load: ir.OpView, target: Sequence[ir.Value]) -> bool:
    """Whether the indices are some of the target's, in order, and zeros of sizes of 1."""
    sizes = ir.MemRefType(load.operands[0].type).shape
    rest = target
    for index, size in zip(_indices(load), sizes, strict=True):
        if size == 1 and _is_zero(index):
            continue
        places = [n for n, other in enumerate(rest) if _are_same([index], [other])]
        if not places:
            return False
        rest = rest[places[0] :]
    return True


def _is_zero(index: ir.Value) -> bool:
    owner = index.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    return ir.IntegerAttr(owner.attributes["value"]).value == 0


def _variables(load: ir.OpView) -> set[ir.Value]:
    """The variables that the indices of a load are computed from."""
    return _variables_in(*_indices(load))


def _variables_in(*values: ir.Value) -> set[ir.Value]:
    """The block arguments that values are computed from, without buffers."""
    found, seen, pending = set[ir.Value](), set[ir.Operation](), list(values)
    while pending:
        value = pending.pop()
        owner = value.owner
        if not isinstance(owner, ir.Block):
            operation = owner.operation
            if operation not in seen:
                seen.add(operation)
                pending += values_read(owner)
        elif not isinstance(value.type, ir.MemRefType):
            found.add(value)
    return found


def _is_plain(index: ir.Value, summed: set[ir.Value]) -> bool:
    """Whether an axis that is summed over is an index by itself, if it is in one."""
    return _is_variable(index) or not _variables_in(index) & summed


def _is_multiply_add(block: BlockOp, store: ir.OpView) -> bool:
    """Whether a block adds a product of two loads to an element, as ``c += a * b``.

    Both have to be read again for other elements.
    """
    if store.operation.parent != block.operation:
        return False
    total = _made_by(store.operands[0], "arith.addf", "arith.addi")
    if total is None:
        return False
    old = _made_by(total.operands[0], "memref.load")
    product = _made_by(total.operands[1], "arith.mulf", "arith.muli")
    if old is None or product is None:
        return False
    target = _indices(store)
    if old.operands[0] != store.operands[1] or not _are_same(_indices(old), target):
        return False
    factors = [_made_by(factor, "memref.load") for factor in product.operands]
    return all(f is not None and not set(target) <= _variables(f) for f in factors)


def _made_by(value: ir.Value, *names: str) -> ir.OpView | None:
    """The operation of one of these names that makes a value, before conversions."""
    owner = _through_casts(value).owner
    return (
        None if isinstance(owner, ir.Block) or owner.name not in names else owner.opview
    )
