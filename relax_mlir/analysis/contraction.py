"""Contractions (matmul, convolution) matched in the blocks of tensor programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import only_store, own_operations
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "ContractionBlock",
    "OperandAccess",
    "match_contraction",
    "match_contractions",
]


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


def _match(block: BlockOp) -> ContractionBlock | None:
    if "R" not in block.kinds.value or not block.has_init or block.bindings:
        return None
    body = block.body.blocks[0]
    store = only_store(body)
    if store is None:
        return None
    axes: dict[ir.Value, int] = {a: i for i, a in enumerate(body.arguments)}
    operands = _operands(store)
    output_maps = _index_maps(list(store.operands)[2:], axes)
    if operands is None or output_maps is None:
        return None
    first, second = (_match_load(value, axes) for value in operands)
    if first is None or second is None:
        return None
    return ContractionBlock(block, store.operands[1], output_maps, (first, second))


def _operands(store: ir.OpView) -> list[ir.Value] | None:
    """The two values whose multiplication is added to the accumulator."""
    addition = store.operands[0].owner
    if isinstance(addition, ir.Block) or addition.name not in (
        "arith.addf",
        "arith.addi",
    ):
        return None
    for operand in addition.operands:
        multiplication = operand.owner
        if (
            not isinstance(multiplication, ir.Block)
            and multiplication.name in _MULTIPLICATIONS
        ):
            return list(multiplication.operands)
    return None


_MULTIPLICATIONS = ("arith.mulf", "arith.muli")
_EXTENSIONS = ("arith.extf", "arith.extsi", "arith.extui")


def _match_load(value: ir.Value, axes: Mapping[ir.Value, int]) -> OperandAccess | None:
    """An operand, if it is a load, perhaps widened."""
    extend, owner = None, value.owner
    if not isinstance(owner, ir.Block) and owner.name in _EXTENSIONS:
        extend, owner = owner.name, owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "memref.load":
        return None
    index_maps = _index_maps(list(owner.operands)[1:], axes)
    return (
        None
        if index_maps is None
        else OperandAccess(owner.operands[0], index_maps, extend)
    )


def _index_maps(
    indices: Sequence[ir.Value], axes: Mapping[ir.Value, int]
) -> list[AffineForm[int]] | None:
    found = [affine_form(i, axes) for i in indices]
    known = [f for f in found if f is not None]
    return known if len(known) == len(found) else None
