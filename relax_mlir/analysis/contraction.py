"""Contractions: sums of products, as matmuls and convolutions are.

:class:`MultiplyAccumulate` recognises the computation of one step, for blocks of tensor
programs and bodies of linalg operations; :class:`AxisRoles` has the roles of the axes (batch,
M, N, K). Blocks of tensor programs are matched here; linalg operations by
:mod:`relax_mlir.schedules.match_contraction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import (
    only_store,
    operations_named,
    own_operations,
    walk,
)
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "AxisRoles",
    "ContractionBlock",
    "MultiplyAccumulate",
    "OperandAccess",
    "contraction_of",
    "contraction_operations",
    "contraction_sizes",
    "converted_source",
    "is_contraction",
    "is_product",
    "is_sum",
    "load_of",
    "match_contraction",
    "match_contractions",
]


@dataclass(frozen=True)
class AxisRoles:
    """The axes of C[batch, m, n] = sum_k A[batch, m, k] * B[batch, k, n], in order.

    Attributes:
        batch: axes of both operands and of the result.
        m, n: axes of the result and of the first or second operand alone.
        k: reduction axes of both operands.
        others: all other axes, such as reduction axes of one operand.
    """

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    others: tuple[int, ...]

    @staticmethod
    def of(kinds: str, lhs: Collection[int], rhs: Collection[int]) -> AxisRoles:
        """The roles of axes by the operands that they index.

        Args:
            kinds: a letter per axis: ``R`` for reduction axes; the result has the others.
            lhs, rhs: the axes of each operand.
        """
        found: dict[str, list[int]] = {role: [] for role in (*_ROLES.values(), "")}
        for axis, kind in enumerate(kinds):
            role = _ROLES.get((axis in lhs, axis in rhs, kind != "R"), "")
            found[role].append(axis)
        return AxisRoles(*map(tuple, found.values()))


# By whether the first operand, the second operand, and the result have an axis.
_ROLES = {
    (True, True, True): "batch",
    (True, False, True): "m",
    (False, True, True): "n",
    (True, True, False): "k",
}


@dataclass(frozen=True)
class MultiplyAccumulate:
    """A step of a contraction, ``accumulator + x * y``.

    Attributes:
        addition: the operation that adds.
        accumulator: the addend that is not the product.
        operands: the two operands of the multiplication.
    """

    addition: ir.Operation
    accumulator: ir.Value
    operands: tuple[ir.Value, ir.Value]

    @staticmethod
    def of(
        value: ir.Value, source_of: Callable[[ir.Value], ir.Value] = lambda v: v
    ) -> MultiplyAccumulate | None:
        """A value as a step of a contraction; None for others.

        Args:
            source_of: the value before conversions that the step may contain.
        """
        if not is_sum(source_of(value)):
            return None
        addition = source_of(value).owner
        for place, operand in enumerate(addition.operands):
            product = source_of(operand)
            if is_product(product):
                x, y = product.owner.operands
                accumulator = addition.operands[1 - place]
                return MultiplyAccumulate(addition.operation, accumulator, (x, y))
        return None


def converted_source(value: ir.Value) -> tuple[ir.Value, list[str]]:
    """The value before conversions, and the names of these, the last one first."""
    names: list[str] = []
    while not isinstance(value.owner, ir.Block):
        owner = value.owner
        if owner.name == "memref.load" or len(owner.operands) != 1:
            break
        names.append(owner.name)
        value = owner.operands[0]
    return value, names


def load_of(value: ir.Value) -> ir.OpView | None:
    """The load that computes a value; None for other values."""
    owner = value.owner
    is_load = not isinstance(owner, ir.Block) and owner.name == "memref.load"
    return owner.opview if is_load else None


def is_sum(value: ir.Value) -> bool:
    """Whether a value is computed by an addition."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name in _ADDITIONS


def is_product(value: ir.Value) -> bool:
    """Whether a value is computed by a multiplication."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name in _MULTIPLICATIONS


_ADDITIONS = ("arith.addf", "arith.addi")
_MULTIPLICATIONS = ("arith.mulf", "arith.muli")


@dataclass(frozen=True)
class OperandAccess:
    """An operand of a contraction.

    Attributes:
        buffer: the buffer; index_maps: its index maps over the axes of the block.
        extend: the operation that widens an element to the accumulator type, if any.
    """

    buffer: ir.Value
    index_maps: Sequence[AffineForm[int]]
    extend: str | None = None

    @property
    def shape(self) -> list[int]:
        """The sizes of the buffer; negative if dynamic."""
        return list(ir.MemRefType(self.buffer.type).shape)

    @property
    def element(self) -> Any:  # Any: the stubs know no widths of types
        """The element type."""
        return ir.MemRefType(self.buffer.type).element_type

    @property
    def axes(self) -> set[int]:
        """The axes that the indices depend on."""
        return {axis for form in self.index_maps for axis in form.coefficients}

    def stride_bytes(self, axis: int) -> int | None:
        """The stride along an axis, in bytes; None if it is not static."""
        total, stride = 0, self.element.width // 8
        for form, size in zip(self.index_maps[::-1], self.shape[::-1], strict=True):
            factor = form.coefficients.get(axis, 0)
            if factor and stride < 0:
                return None
            total += factor * stride
            stride = stride * size if size >= 0 and stride >= 0 else -1
        return total


@dataclass(frozen=True)
class ContractionBlock:
    """A reduction block that sums products of elements of two buffers.

    Attributes:
        block: the block.
        output: the buffer of the result; output_maps: its index maps.
        operands: the two operands.
    """

    block: BlockOp
    output: ir.Value
    output_maps: Sequence[AffineForm[int]]
    operands: tuple[OperandAccess, OperandAccess]

    @property
    def kinds(self) -> str:
        """A letter per axis."""
        return self.block.kinds.value

    @property
    def extents(self) -> list[int]:
        """Sizes of the axes; negative if dynamic."""
        return list(ir.DenseI64ArrayAttr(self.block.static_extents))

    def roles(self, lhs: OperandAccess, rhs: OperandAccess) -> AxisRoles:
        """The roles of the axes, with the operands in this order."""
        return AxisRoles.of(self.kinds, lhs.axes, rhs.axes)

    @property
    def column(self) -> int | None:
        """The axis along which the result is contiguous (N), if it is a single axis."""
        return self.output_maps[-1].single_variable if self.output_maps else None


def match_contraction(program: func.FuncOp) -> ContractionBlock | None:
    """The only reduction of a program, if it is a contraction; else None."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    reductions = [b for b in blocks if "R" in b.kinds.value]
    return _match(reductions[0]) if len(reductions) == 1 else None


def match_contractions(program: func.FuncOp) -> list[ContractionBlock]:
    """All contractions of a program, in order."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    return [found for block in blocks if (found := _match(block)) is not None]


def is_contraction(block: BlockOp) -> bool:
    """Whether a reduction block sums products of elements of two different buffers."""
    store = only_store(block.body.blocks[0])
    if store is None or _index_maps(list(store.operands)[2:], _axes(block)) is None:
        return False
    return len({load.operands[0] for load, _ in _multiplied_loads(store)}) == 2


def _contraction_blocks(function: func.FuncOp) -> list[BlockOp]:
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    return [b for b in blocks if "R" in b.kinds.value and is_contraction(b)]


def contraction_of(
    function: func.FuncOp,
) -> tuple[BlockOp, tuple[ir.OpView, ir.OpView]] | None:
    """The only contraction of a program, and the loads of its operands.

    Returns:
        None for others and dynamic sizes.
    """
    found = _contraction_blocks(function)
    if len(found) != 1:
        return None
    (block,) = found
    body = block.body.blocks[0]
    written = {store.operands[1] for store in operations_named(body, "memref.store")}
    loads = operations_named(body, "memref.load")
    reads = [o for o in loads if o.operands[0] not in written]
    has_regions = any(len(o.operation.regions) for o in walk(body))
    is_dynamic = min(ir.DenseI64ArrayAttr(block.static_extents)) < 0
    if len(reads) != 2 or is_dynamic or has_regions:
        return None
    return block, (reads[0], reads[1])


def contraction_sizes(function: func.FuncOp) -> tuple[int, int, int, int, str] | None:
    """The sizes of a program's only contraction; None for others and dynamic sizes.

    Returns:
        The batch size, M, N, K, and the element type of the operands.
    """
    found = contraction_of(function)
    if found is None:
        return None
    block, reads = found
    extents, axes = list(ir.DenseI64ArrayAttr(block.static_extents)), _axes(block)
    kinds = block.kinds.value
    roles = AxisRoles.of(kinds, *(_indexed_axes(load, axes) for load in reads))
    summed = [axis for axis in roles.others if kinds[axis] == "R"]
    repeated = [axis for axis in roles.others if kinds[axis] != "R"]
    groups = roles.batch, roles.m, (*roles.n, *repeated), (*roles.k, *summed)
    batch, m, n, k = (math.prod(extents[axis] for axis in group) for group in groups)
    element = str(ir.MemRefType(reads[0].operands[0].type).element_type)
    return batch, m, n, k, element


def _indexed_axes(load: ir.OpView, axes: Mapping[ir.Value, int]) -> set[int]:
    """The axes that a load's affine indices depend on."""
    forms = (affine_form(index, axes) for index in list(load.operands)[1:])
    return {axis for form in forms if form is not None for axis in form.coefficients}


def contraction_operations(function: func.FuncOp) -> int:
    """Multiplications and additions of a program's contractions; 0 if a size is dynamic."""
    found = _contraction_blocks(function)
    extents = [list(ir.DenseI64ArrayAttr(b.static_extents)) for b in found]
    if any(min(sizes) < 0 for sizes in extents):
        return 0
    return sum(2 * math.prod(sizes) for sizes in extents)


def _match(block: BlockOp) -> ContractionBlock | None:
    """A reduction block as a contraction of affine operands, at most widened."""
    if "R" not in block.kinds.value or not block.has_init or block.bindings:
        return None
    store = only_store(block.body.blocks[0])
    found = [] if store is None else _multiplied_loads(store)
    if store is None or not found:
        return None
    axes = _axes(block)
    output_maps = _index_maps(list(store.operands)[2:], axes)
    first, second = (_operand(load, names, axes) for load, names in found)
    if output_maps is None or first is None or second is None:
        return None
    return ContractionBlock(block, store.operands[1], output_maps, (first, second))


def _multiplied_loads(store: ir.OpView) -> list[tuple[ir.OpView, list[str]]]:
    """The two loads that a stored multiply-accumulate multiplies, with their conversions.

    Empty for other stores, and operands that are not loaded.
    """
    step = MultiplyAccumulate.of(store.operands[0])
    sources = map(converted_source, step.operands if step else ())
    found = [(load, names) for v, names in sources if (load := load_of(v)) is not None]
    return found if len(found) == 2 else []


_EXTENSIONS = ("arith.extf", "arith.extsi", "arith.extui")


def _operand(
    load: ir.OpView, conversions: Sequence[str], axes: Mapping[ir.Value, int]
) -> OperandAccess | None:
    """An operand with affine indices, optionally widened by one cast."""
    index_maps = _index_maps(list(load.operands)[1:], axes)
    extend = next(iter(conversions), None)
    is_extended = len(conversions) < 2 and extend in (None, *_EXTENSIONS)
    if index_maps is None or not is_extended:
        return None
    return OperandAccess(load.operands[0], index_maps, extend)


def _axes(block: BlockOp) -> dict[ir.Value, int]:
    return {a: i for i, a in enumerate(block.body.blocks[0].arguments)}


def _index_maps(
    indices: Sequence[ir.Value], axes: Mapping[ir.Value, int]
) -> list[AffineForm[int]] | None:
    found = [affine_form(i, axes) for i in indices]
    known = [f for f in found if f is not None]
    return known if len(known) == len(found) else None
