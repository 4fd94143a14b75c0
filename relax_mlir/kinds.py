"""What kind of tensor program a function is, read from its blocks."""

from enum import IntEnum

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.indexing import Linear, linear_in

__all__ = ["Kind", "kind_of"]


class Kind(IntEnum):
    """Kinds of tensor programs, as TVM's fusion orders them.

    Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep
    Learning, OSDI 2018, section 3.
    """

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_FUSABLE = 4
    OPAQUE = 5


def kind_of(function: func.FuncOp) -> Kind:
    """The kind of a tensor program.

    One block without reduce axes is elementwise, broadcast or injective, by how it reads.
    One block with reduce axes, after any injective ones, is a reduction if it reads every
    element once; it is out-fusable if it sums products of two buffers (a contraction) or
    reads windows that overlap. Anything else is opaque.
    """
    blocks = [o for o in function.entry_block.operations if isinstance(o, BlockOp)]
    if not blocks or any(b.bindings for b in blocks) or _has_other_statements(function):
        return Kind.OPAQUE
    *before, last = blocks
    if any("R" in b.kinds.value or not _stores_plainly(b) for b in before):
        return Kind.OPAQUE
    if not _stores_plainly(last):
        return Kind.OPAQUE
    if "R" in last.kinds.value:
        is_plain = not before and _reads_single_axes(last) and not _is_contraction(last)
        return Kind.REDUCTION if is_plain else Kind.OUT_FUSABLE
    return Kind.INJECTIVE if before else _read_kind(last)


def _has_other_statements(function: func.FuncOp) -> bool:
    known = ("tir.block", "tir.alloc_buffer", "func.return")
    return any(
        o.operation.name not in known and not o.operation.name.startswith("arith.")
        for o in function.entry_block.operations
    )


def _axes(block: BlockOp) -> dict[ir.Value, int]:
    return {a: i for i, a in enumerate(block.body.blocks[0].arguments)}


def _operations(block: BlockOp, name: str) -> list[ir.OpView]:
    return [o for o in block.body.blocks[0].operations if o.operation.name == name]


def _stores_plainly(block: BlockOp) -> bool:
    """Whether it writes one buffer, each element once, at linear indices."""
    stores = _operations(block, "memref.store")
    if len(stores) != 1:
        return False
    return all(
        linear_in(i, _axes(block)) is not None for i in list(stores[0].operands)[2:]
    )


def _read_kind(block: BlockOp) -> Kind:
    axes = _axes(block)
    kind = Kind.ELEMENTWISE
    if any(o.operation.name == "scf.if" for o in block.body.blocks[0].operations):
        return Kind.INJECTIVE
    for load in _operations(block, "memref.load"):
        forms = [linear_in(i, axes) for i in list(load.operands)[1:]]
        kind = max(kind, _access_kind(forms, len(axes)))
    return kind


def _reads_single_axes(block: BlockOp) -> bool:
    """Whether every index of every read is one axis, so that no element is read twice."""
    axes = _axes(block)
    if any(o.operation.name == "scf.if" for o in block.body.blocks[0].operations):
        return False
    for load in _operations(block, "memref.load"):
        for index in list(load.operands)[1:]:
            form = linear_in(index, axes)
            if form is None or len(form.coefficients) > 1:
                return False
    return True


def _access_kind(forms: "list[Linear | None]", rank: int) -> Kind:
    known = [f for f in forms if f is not None]
    if len(known) < len(forms):
        return Kind.INJECTIVE
    singles = [f.single_axis for f in known]
    if singles == list(range(rank)):
        return Kind.ELEMENTWISE
    used = [s for s in singles if s is not None]
    is_subset = all(
        s is not None or f == Linear({}, 0) for s, f in zip(singles, forms, strict=True)
    )
    in_place = all(
        s - (rank - len(forms)) == i for i, s in enumerate(singles) if s is not None
    )
    return (
        Kind.BROADCAST
        if is_subset and in_place and used == sorted(used)
        else Kind.INJECTIVE
    )


def _is_contraction(block: BlockOp) -> bool:
    """acc + x * y, with x and y read from two buffers."""
    store = _operations(block, "memref.store")[0]
    total = store.operands[0].owner
    if isinstance(total, ir.Block) or total.name not in ("arith.addf", "arith.addi"):
        return False
    for operand in total.operands:
        product = operand.owner
        if not isinstance(product, ir.Block) and product.name in (
            "arith.mulf",
            "arith.muli",
        ):
            return len({_source(v) for v in product.operands}) == 2
    return False


def _source(value: ir.Value) -> ir.Value | None:
    """The buffer that a factor is read from, through conversions."""
    while not isinstance(value.owner, ir.Block):
        owner = value.owner
        if owner.name == "memref.load":
            return owner.operands[0]
        if len(list(owner.operands)) != 1:
            return None
        value = owner.operands[0]
    return None
