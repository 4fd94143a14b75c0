"""Sums of products in tensor programs, read back from their blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.indexing import Linear, linear_in
from relax_mlir.traversal import only_store, own_operations

__all__ = ["Read", "SumOfProducts", "sum_of_products", "sums_of_products"]


@dataclass(frozen=True)
class Read:
    """What a block loads.

    Attributes:
        buffer: that it reads; forms: its indices in the axes of the block.
        extend: the operation that widens an element to the type of the sum, if one does.
    """

    buffer: ir.Value
    forms: Sequence[Linear]
    extend: str | None = None

    @property
    def shape(self) -> list[int]:
        """The sizes of the buffer; negative ones are not known."""
        return list(ir.MemRefType(self.buffer.type).shape)

    @property
    def element(self) -> Any:  # Any: the stubs know no widths of types
        """The type of an element."""
        return ir.MemRefType(self.buffer.type).element_type

    @property
    def axes(self) -> set[int]:
        """The axes that some index depends on."""
        return {axis for form in self.forms for axis in form.coefficients}

    def stride_bytes(self, axis: int) -> int | None:
        """From one element along an axis to the next; None if it is not known."""
        total, stride = 0, self.element.width // 8
        for form, size in zip(self.forms[::-1], self.shape[::-1], strict=True):
            factor = form.coefficients.get(axis, 0)
            if factor and stride < 0:
                return None
            total += factor * stride
            stride = stride * size if size >= 0 and stride >= 0 else -1
        return total


@dataclass(frozen=True)
class SumOfProducts:
    """The one sum of a program, if it is of products of two buffers' elements.

    Attributes:
        block: that sums.
        written: the buffer of the result; places: its indices.
        factors: what is multiplied.
    """

    block: BlockOp
    written: ir.Value
    places: Sequence[Linear]
    factors: tuple[Read, Read]

    @property
    def kinds(self) -> str:
        """A letter per axis."""
        return self.block.kinds.value

    @property
    def extents(self) -> list[int]:
        """Sizes of the axes; negative ones are not known."""
        return list(self.block.static_extents)

    @property
    def column(self) -> int | None:
        """The axis along which results lie side by side, if it is one."""
        return self.places[-1].single_axis if self.places else None


def sum_of_products(program: func.FuncOp) -> SumOfProducts | None:
    """The sum of a program; None if there are others, or it is none of products."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    sums = [b for b in blocks if "R" in b.kinds.value]
    return _sum_of(sums[0]) if len(sums) == 1 else None


def sums_of_products(program: func.FuncOp) -> list[SumOfProducts]:
    """All sums of products of a program, in order."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    return [total for block in blocks if (total := _sum_of(block)) is not None]


def _sum_of(block: BlockOp) -> SumOfProducts | None:
    if "R" not in block.kinds.value or not block.has_init or block.bindings:
        return None
    body = block.body.blocks[0]
    store = only_store(body)
    if store is None:
        return None
    axes = {a: i for i, a in enumerate(body.arguments)}
    factors = _factors(store)
    places = _forms(list(store.operands)[2:], axes)
    if factors is None or places is None:
        return None
    first, second = (_read(value, axes) for value in factors)
    if first is None or second is None:
        return None
    return SumOfProducts(block, store.operands[1], places, (first, second))


def _factors(store: ir.OpView) -> list[ir.Value] | None:
    """The two values whose product is added to what is stored."""
    total = store.operands[0].owner
    if isinstance(total, ir.Block) or total.name not in ("arith.addf", "arith.addi"):
        return None
    for term in total.operands:
        product = term.owner
        if not isinstance(product, ir.Block) and product.name in _PRODUCTS:
            return list(product.operands)
    return None


_PRODUCTS = ("arith.mulf", "arith.muli")
_EXTENSIONS = ("arith.extf", "arith.extsi", "arith.extui")


def _read(value: ir.Value, axes: Mapping[ir.Value, int]) -> Read | None:
    """A factor, if it is loaded, and perhaps widened."""
    extend, owner = None, value.owner
    if not isinstance(owner, ir.Block) and owner.name in _EXTENSIONS:
        extend, owner = owner.name, owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "memref.load":
        return None
    forms = _forms(list(owner.operands)[1:], axes)
    return None if forms is None else Read(owner.operands[0], forms, extend)


def _forms(
    indices: Sequence[ir.Value], axes: Mapping[ir.Value, int]
) -> list[Linear] | None:
    found = [linear_in(i, axes) for i in indices]
    known = [f for f in found if f is not None]
    return known if len(known) == len(found) else None
