"""Op pattern kinds of tensor programs, derived from their blocks."""

from collections.abc import Sequence
from enum import IntEnum

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import is_contraction
from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import only_store, operations_named, own_operations, walk
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "OpPatternKind",
    "ends_elementwise",
    "op_pattern_of",
    "stores_piecewise",
]


class OpPatternKind(IntEnum):
    """Op pattern kinds of tensor programs, in the order of TVM's fusion.

    Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep
    Learning, OSDI 2018, section 3.
    """

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_FUSABLE = 4
    OPAQUE = 5


def op_pattern_of(function: func.FuncOp) -> OpPatternKind:
    """The op pattern kind of a tensor program.

    Blocks without reduction axes are elementwise, broadcast or injective, by their access
    maps; also injective if a value depends on its index.
    One block with reduction axes, optionally with injective ones before it, and with broadcasts
    of its result, but not of its input, after it, is a reduction if it reads every element
    once; it is out-fusable if it is a contraction or its windows overlap.
    Anything else is opaque, as are programs with several results.
    """
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    if not blocks or any(b.bindings for b in blocks) or _has_other_statements(function):
        return OpPatternKind.OPAQUE
    if function.attributes["tir.num_outputs"].value != 1:
        return OpPatternKind.OPAQUE
    reductions = [i for i, b in enumerate(blocks) if "R" in b.kinds.value]
    if len(reductions) > 1 or not all(map(_stores_plainly, blocks)):
        return OpPatternKind.OPAQUE
    if not reductions:
        is_plain = _is_chain(blocks) and not any(map(_depends_on_index, blocks))
        return max(map(_read_kind, blocks)) if is_plain else OpPatternKind.INJECTIVE
    before, reduction, after = (
        blocks[: reductions[0]],
        blocks[reductions[0]],
        blocks[reductions[0] + 1 :],
    )
    if any(_read_kind(b) > OpPatternKind.BROADCAST for b in after):
        return OpPatternKind.OPAQUE
    reduced = _buffers(reduction, "memref.load") - _buffers(reduction, "memref.store")
    if any(reduced & _buffers(b, "memref.load") for b in after):
        return OpPatternKind.OPAQUE  # the input is read a second time
    is_plain = (
        not before and _reads_single_axes(reduction) and not is_contraction(reduction)
    )
    return OpPatternKind.REDUCTION if is_plain else OpPatternKind.OUT_FUSABLE


def ends_elementwise(function: func.FuncOp) -> bool:
    """Whether a program with reductions stores its one result elementwise, as softmax does."""
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    if not any("R" in b.kinds.value for b in blocks) or _has_other_statements(function):
        return False
    (*before, last), count = blocks, function.attributes["tir.num_outputs"].value
    if count != 1 or "R" in last.kinds.value or not _is_chain([last]):
        return False
    result = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)][-1]
    is_result = _buffers(last, "memref.store") == {result}
    return is_result and not any(result in _buffers(b, "memref.store") for b in before)


def stores_piecewise(function: func.FuncOp) -> bool:
    """Whether a program without reductions stores its result piecewise or permuted."""
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    is_injective = not any("R" in b.kinds.value for b in blocks)
    return is_injective and all(map(_stores_plainly, blocks)) and not _is_chain(blocks)


def _has_other_statements(function: func.FuncOp) -> bool:
    known = ("tir.block", "tir.alloc_buffer", "func.return")
    return any(
        o.operation.name not in known and not o.operation.name.startswith("arith.")
        for o in own_operations(function.entry_block)
    )


def _axes(block: BlockOp) -> dict[ir.Value, int]:
    return {a: i for i, a in enumerate(block.body.blocks[0].arguments)}


def _operations(block: BlockOp, name: str) -> list[ir.OpView]:
    return operations_named(block.body.blocks[0], name)


def _stores_plainly(block: BlockOp) -> bool:
    """Whether it has one unconditional store, at affine indices."""
    store = only_store(block.body.blocks[0])
    return store is not None and all(
        affine_form(i, _axes(block)) is not None for i in list(store.operands)[2:]
    )


def _has_branches(block: BlockOp) -> bool:
    """Whether the body has branches or loops."""
    return any(len(o.operation.regions) for o in walk(block.body.blocks[0]))


def _buffers(block: BlockOp, name: str) -> set[ir.Value]:
    """The buffers that the loads or stores of a block access."""
    place = 1 if name == "memref.store" else 0
    return {o.operands[place] for o in _operations(block, name)}


def _is_chain(blocks: list[BlockOp]) -> bool:
    """Whether every block stores to its own buffer, at its axes."""
    stores = [store for b in blocks for store in _operations(b, "memref.store")]
    axes = [list(b.body.blocks[0].arguments) for b in blocks]
    in_place = all(list(s.operands)[2:] == a for s, a in zip(stores, axes, strict=True))
    return in_place and len({s.operands[1] for s in stores}) == len(blocks)


def _read_kind(block: BlockOp) -> OpPatternKind:
    axes = _axes(block)
    kind = OpPatternKind.ELEMENTWISE
    if _has_branches(block):
        return OpPatternKind.INJECTIVE
    for load in _operations(block, "memref.load"):
        maps = [affine_form(i, axes) for i in list(load.operands)[1:]]
        kind = max(kind, _access_kind(maps, len(axes)))
    return kind


def _depends_on_index(block: BlockOp) -> bool:
    """Whether values depend on the index beyond the elements loaded."""
    return any(map(_converts_index, walk(block.body.blocks[0])))


def _converts_index(operation: ir.OpView) -> bool:
    """Whether an operation converts an index to a value."""
    if operation.operation.name in ("memref.load", "memref.store"):
        return False
    is_of_index = any(isinstance(v.type, ir.IndexType) for v in operation.operands)
    makes_index = any(isinstance(v.type, ir.IndexType) for v in operation.results)
    return is_of_index and not makes_index


def _reads_single_axes(block: BlockOp) -> bool:
    """Whether every load index is a single axis, so that no element is read twice."""
    axes = _axes(block)
    if _has_branches(block):
        return False
    for load in _operations(block, "memref.load"):
        for index in list(load.operands)[1:]:
            map_ = affine_form(index, axes)
            if map_ is None or len(map_.coefficients) > 1:
                return False
    return True


def _access_kind(maps: Sequence[AffineForm[int] | None], rank: int) -> OpPatternKind:
    known = [f for f in maps if f is not None]
    if len(known) < len(maps):
        return OpPatternKind.INJECTIVE
    singles = [f.single_variable for f in known]
    if singles == list(range(rank)):
        return OpPatternKind.ELEMENTWISE
    used = [s for s in singles if s is not None]
    is_subset = all(
        s is not None or f == AffineForm({}, 0)
        for s, f in zip(singles, maps, strict=True)
    )
    is_in_order = used == sorted(set(used))
    return (
        OpPatternKind.BROADCAST
        if is_subset and is_in_order
        else OpPatternKind.INJECTIVE
    )
