"""Op pattern kinds as TVM annotates them.

:mod:`relax_mlir.analysis.op_pattern` derives what our own schedules can fuse; this module
follows TVM's ``AnnotateTIROpPattern`` rule by rule, so that the numbers are the same.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import MultiplyAccumulate, load_of
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import own_operations, values_read, walk

__all__ = ["TvmOpPatternKind", "tvm_op_pattern_of"]


class TvmOpPatternKind(IntEnum):
    """TVM's ``OpPatternKind``, by value."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def tvm_op_pattern_of(function: func.FuncOp) -> TvmOpPatternKind:
    """The op pattern kind of a tensor program: in general the highest of its blocks."""
    outputs = _outputs(function)
    kind = TvmOpPatternKind.ELEMENTWISE
    for block in _blocks(function):
        found = _block_pattern(block)
        is_injective = found <= TvmOpPatternKind.INJECTIVE
        if (
            is_injective
            and kind is TvmOpPatternKind.REDUCTION
            and _writes(block, outputs)
        ):
            kind = TvmOpPatternKind.OUT_FUSABLE  # such as a softmax
        else:
            kind = max(kind, found)
    return kind


def _outputs(function: func.FuncOp) -> set[ir.Value]:
    """The argument buffers of a program."""
    return set(function.entry_block.arguments)


def _blocks(root: ir.OpView) -> Iterator[BlockOp]:
    """The innermost blocks, in order."""
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
    """The loads or stores in the body of a block, including conditional ones."""
    return [o for b in block.body.blocks for o in walk(b) if o.operation.name == name]


def _indices(access: ir.OpView) -> list[ir.Value]:
    """The indices of a load or a store, through conversions."""
    before = 1 if access.operation.name == "memref.load" else 2
    return [_through_casts(v) for v in list(access.operands)[before:]]


def _block_pattern(block: BlockOp) -> TvmOpPatternKind:
    stores = _accesses(block, "memref.store")
    if not stores:
        return TvmOpPatternKind.OPAQUE
    target = _indices(stores[0])
    if not all(_are_same(_indices(store), target) for store in stores[1:]):
        return TvmOpPatternKind.OPAQUE
    loads = _accesses(block, "memref.load")
    kinds = [_access_pattern(load, target) for load in loads]
    highest = max(kinds, default=TvmOpPatternKind.ELEMENTWISE)
    if highest is TvmOpPatternKind.BROADCAST and TvmOpPatternKind.ELEMENTWISE in kinds:
        return TvmOpPatternKind.ELEMENTWISE
    if highest is not TvmOpPatternKind.OPAQUE:
        return highest
    axes: list[ir.Value] = list(block.body.blocks[0].arguments)
    reduced = {a for a, k in zip(axes, block.kinds.value, strict=True) if k == "R"}
    if not reduced:
        return TvmOpPatternKind.OPAQUE
    if _is_multiply_add(block, stores[-1]):
        return TvmOpPatternKind.OUT_FUSABLE
    if all(_is_plain(index, reduced) for load in loads for index in _indices(load)):
        return TvmOpPatternKind.REDUCTION
    return TvmOpPatternKind.OUT_FUSABLE  # such as pooling


def _through_casts(value: ir.Value) -> ir.Value:
    """The source of a chain of conversions."""
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
    """Whether an index is an axis, a loop variable or a size, without arithmetic."""
    return isinstance(value.owner, ir.Block)


def _are_same(indices: Sequence[ir.Value], others: Sequence[ir.Value]) -> bool:
    """Whether two accesses have the same variables as indices; TVM compares variables only."""
    return indices == others and all(map(_is_variable, indices))


def _access_pattern(load: ir.OpView, target: Sequence[ir.Value]) -> TvmOpPatternKind:
    """The op pattern kind of a load, by its indices relative to the store's."""
    indices = _indices(load)
    if _are_same(indices, target):
        return TvmOpPatternKind.ELEMENTWISE
    if _is_broadcast(load, target):
        return TvmOpPatternKind.BROADCAST
    is_injective = all(map(_is_variable, target)) and _variables(load) <= set(target)
    return TvmOpPatternKind.INJECTIVE if is_injective else TvmOpPatternKind.OPAQUE


def _is_broadcast(load: ir.OpView, target: Sequence[ir.Value]) -> bool:
    """Whether the indices are a subsequence of the target's, with zeros for unit dimensions."""
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
    """The variables that the indices of a load depend on."""
    return _variables_in(*_indices(load))


def _variables_in(*values: ir.Value) -> set[ir.Value]:
    """The block arguments that values depend on, except buffers."""
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
    """Whether a reduction axis appears in an index only by itself."""
    return _is_variable(index) or not _variables_in(index) & summed


def _is_multiply_add(block: BlockOp, store: ir.OpView) -> bool:
    """Matches ``c += a * b``, where both loads are reused for other elements."""
    if store.operation.parent != block.operation:
        return False
    step = MultiplyAccumulate.of(store.operands[0], _through_casts)
    if step is None or step.addition.operands[0] != step.accumulator:
        return False
    old = load_of(_through_casts(step.accumulator))
    if old is None or old.operands[0] != store.operands[1]:
        return False
    target = _indices(store)
    if not _are_same(_indices(old), target):
        return False
    loads = [load_of(_through_casts(v)) for v in step.operands]
    return all(f is not None and not set(target) <= _variables(f) for f in loads)
