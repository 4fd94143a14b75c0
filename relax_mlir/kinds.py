"""What kind of tensor program a function is, read from its blocks."""

import math
from enum import IntEnum

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.indexing import Linear, linear_in
from relax_mlir.traversal import named, only_store, own_operations, walk

__all__ = [
    "Kind",
    "contraction_of",
    "contraction_operations",
    "ends_in_map",
    "kind_of",
    "product_of",
    "writes_in_parts",
]


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

    Blocks without reduce axes are elementwise, broadcast or injective, by how they read;
    injective, too, if a value depends on where it is.
    One block with reduce axes, perhaps with injective ones before it and broadcasts of
    its result, but not of its input, after it, is a reduction if it reads every element
    once; it is out-fusable if it sums products of two buffers (a contraction) or reads
    windows that overlap.
    Anything else is opaque, and so is what has several results.
    """
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    if not blocks or any(b.bindings for b in blocks) or _has_other_statements(function):
        return Kind.OPAQUE
    if function.attributes["tir.num_outputs"].value != 1:
        return Kind.OPAQUE
    sums = [i for i, b in enumerate(blocks) if "R" in b.kinds.value]
    if len(sums) > 1 or not all(map(_stores_plainly, blocks)):
        return Kind.OPAQUE
    if not sums:
        is_plain = _is_chain(blocks) and not any(map(_looks_at_places, blocks))
        return max(map(_read_kind, blocks)) if is_plain else Kind.INJECTIVE
    before, total, after = blocks[: sums[0]], blocks[sums[0]], blocks[sums[0] + 1 :]
    if any(_read_kind(b) > Kind.BROADCAST for b in after):
        return Kind.OPAQUE
    summed = _buffers(total, "memref.load") - _buffers(total, "memref.store")
    if any(summed & _buffers(b, "memref.load") for b in after):
        return Kind.OPAQUE  # the input is read once more
    is_plain = not before and _reads_single_axes(total) and not _is_contraction(total)
    return Kind.REDUCTION if is_plain else Kind.OUT_FUSABLE


def ends_in_map(function: func.FuncOp) -> bool:
    """Whether a program writes its one result by a map, after sums, as a softmax does."""
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    if not any("R" in b.kinds.value for b in blocks) or _has_other_statements(function):
        return False
    (*before, last), count = blocks, function.attributes["tir.num_outputs"].value
    if count != 1 or "R" in last.kinds.value or not _is_chain([last]):
        return False
    result = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)][-1]
    is_result = _buffers(last, "memref.store") == {result}
    return is_result and not any(result in _buffers(b, "memref.store") for b in before)


def writes_in_parts(function: func.FuncOp) -> bool:
    """Whether a tensor program without sums writes its result elsewhere than at the axes."""
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    is_map = not any("R" in b.kinds.value for b in blocks)
    return is_map and all(map(_stores_plainly, blocks)) and not _is_chain(blocks)


def _contractions(function: func.FuncOp) -> list[BlockOp]:
    sums = [
        block
        for block in own_operations(function.entry_block)
        if isinstance(block, BlockOp) and "R" in block.kinds.value
    ]
    return [b for b in sums if _stores_plainly(b) and _is_contraction(b)]


def product_of(function: func.FuncOp) -> tuple[int, int, int, int, str] | None:
    """What the one contraction of a program multiplies; None of others and open sizes.

    Returns:
        How many separate products, the rows, columns and terms of each, and the element
        type of the factors.
    """
    found = contraction_of(function)
    if found is None:
        return None
    block, reads = found
    extents, axes = list(ir.DenseI64ArrayAttr(block.static_extents)), _axes(block)
    first, second = (
        {a for i in list(o.operands)[1:] for a in _axes_in(i, axes)} for o in reads
    )
    sizes = {"outer": 1, "rows": 1, "columns": 1, "terms": 1}
    for axis, (kind, extent) in enumerate(zip(block.kinds.value, extents, strict=True)):
        if kind == "R":
            role = "terms"
        elif axis in first and axis in second:
            role = "outer"
        else:
            role = "rows" if axis in first else "columns"
        sizes[role] *= extent
    element = str(ir.MemRefType(reads[0].operands[0].type).element_type)
    outer, rows, columns, terms = sizes.values()
    return outer, rows, columns, terms, element


def contraction_of(
    function: func.FuncOp,
) -> tuple[BlockOp, tuple[ir.OpView, ir.OpView]] | None:
    """The one contraction of a program, and where it reads its factors.

    Returns:
        None of others and open sizes.
    """
    found = _contractions(function)
    if len(found) != 1:
        return None
    (block,) = found
    written = _buffers(block, "memref.store")
    loads = _operations(block, "memref.load")
    reads = [o for o in loads if o.operands[0] not in written]
    is_open = min(ir.DenseI64ArrayAttr(block.static_extents)) < 0
    if len(reads) != 2 or is_open or _has_branches(block):
        return None
    return block, (reads[0], reads[1])


def _axes_in(index: ir.Value, axes: dict[ir.Value, int]) -> set[int]:
    form = linear_in(index, axes)
    return set() if form is None else set(form.coefficients)


def contraction_operations(function: func.FuncOp) -> int:
    """Multiplications and additions of a program's contractions; 0 if a size is open."""
    found = _contractions(function)
    extents = [list(ir.DenseI64ArrayAttr(b.static_extents)) for b in found]
    if any(min(sizes) < 0 for sizes in extents):
        return 0
    return sum(2 * math.prod(sizes) for sizes in extents)


def _has_other_statements(function: func.FuncOp) -> bool:
    known = ("tir.block", "tir.alloc_buffer", "func.return")
    return any(
        o.operation.name not in known and not o.operation.name.startswith("arith.")
        for o in own_operations(function.entry_block)
    )


def _axes(block: BlockOp) -> dict[ir.Value, int]:
    return {a: i for i, a in enumerate(block.body.blocks[0].arguments)}


def _operations(block: BlockOp, name: str) -> list[ir.OpView]:
    return named(block.body.blocks[0], name)


def _stores_plainly(block: BlockOp) -> bool:
    """Whether it writes one buffer, each element once, at linear indices."""
    store = only_store(block.body.blocks[0])
    return store is not None and all(
        linear_in(i, _axes(block)) is not None for i in list(store.operands)[2:]
    )


def _has_branches(block: BlockOp) -> bool:
    """Whether the body holds branches or loops."""
    return any(len(o.operation.regions) for o in walk(block.body.blocks[0]))


def _buffers(block: BlockOp, name: str) -> set[ir.Value]:
    """The buffers that the loads or stores of a block touch."""
    place = 1 if name == "memref.store" else 0
    return {o.operands[place] for o in _operations(block, name)}


def _is_chain(blocks: list[BlockOp]) -> bool:
    """Whether every block writes a buffer of its own, each element at the axes."""
    stores = [store for b in blocks for store in _operations(b, "memref.store")]
    axes = [list(b.body.blocks[0].arguments) for b in blocks]
    in_place = all(list(s.operands)[2:] == a for s, a in zip(stores, axes, strict=True))
    return in_place and len({s.operands[1] for s in stores}) == len(blocks)


def _read_kind(block: BlockOp) -> Kind:
    axes = _axes(block)
    kind = Kind.ELEMENTWISE
    if _has_branches(block):
        return Kind.INJECTIVE
    for load in _operations(block, "memref.load"):
        forms = [linear_in(i, axes) for i in list(load.operands)[1:]]
        kind = max(kind, _access_kind(forms, len(axes)))
    return kind


def _looks_at_places(block: BlockOp) -> bool:
    """Whether what it computes depends on where it is, beyond what it reads there."""
    return any(map(_takes_place, walk(block.body.blocks[0])))


def _takes_place(operation: ir.OpView) -> bool:
    """Whether an operation makes a value of an index, and no index or access."""
    if operation.operation.name in ("memref.load", "memref.store"):
        return False
    is_of_index = any(isinstance(v.type, ir.IndexType) for v in operation.operands)
    makes_index = any(isinstance(v.type, ir.IndexType) for v in operation.results)
    return is_of_index and not makes_index


def _reads_single_axes(block: BlockOp) -> bool:
    """Whether every index of every read is one axis, so that no element is read twice."""
    axes = _axes(block)
    if _has_branches(block):
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
    is_in_order = used == sorted(set(used))
    return Kind.BROADCAST if is_subset and is_in_order else Kind.INJECTIVE


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
            sources = {_source(v) for v in product.operands}
            return len(sources) == 2 and None not in sources
    return False


def _source(value: ir.Value) -> ir.Value | None:
    """The buffer that an operand is read from, through conversions; None of others."""
    while not isinstance(value.owner, ir.Block):
        owner = value.owner
        if owner.name == "memref.load":
            return owner.operands[0]
        if len(list(owner.operands)) != 1:
            return None
        value = owner.operands[0]
    return None
