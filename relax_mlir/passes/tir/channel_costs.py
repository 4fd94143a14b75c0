"""What a tensor program costs by where its pictures have their channels."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.indexing import Linear, linear_in
from relax_mlir.kinds import Kind, kind_of
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.rewriting import walk

__all__ = ["Costs", "costs_of"]

_UNKNOWN = 56  # stands for a size that only the run knows

# Cycles of one thread, by and large: what matters is that they are in one unit.
_PER_ELEMENT_IN_OTHER_ORDER = 1.0  # a copy that goes across the rows of one side
_PER_PRODUCT = 1 / 32  # two multiply-adds of sixteen lanes
_WINDOWS_COPIED = 0.15  # of the products' time: windows become columns of a panel
_GATHERED = 5.0  # columns that do not lie side by side
_WINDOW_ACROSS = 0.1  # a product of a sum without channels, as rows of pixels


@dataclass(frozen=True)
class Costs:
    """What a program costs for the labels of its buffers; a label is True for channels last.

    Attributes:
        kind: ``conv``, ``window``, ``map`` or ``other``.
        work: products of its sums; elements: of each buffer, the result last.
        main: which inputs are read as the result is written, axis by axis, or by a window.
    """

    kind: str
    work: float
    elements: Sequence[float]
    main: frozenset[int]

    def of(self, labels: Sequence[bool]) -> float:
        """Cycles more than with the best labels."""
        *inputs, out = labels
        if self.kind == "conv":
            return self._conv(any(inputs[i] for i in self.main), out)
        if self.kind == "window":
            return self._window(any(inputs[i] for i in self.main), out)
        if self.kind == "map":
            return _PER_ELEMENT_IN_OTHER_ORDER * sum(
                self.elements[i] for i in self.main if inputs[i] != out
            )
        return _PER_ELEMENT_IN_OTHER_ORDER * sum(
            count for count, label in zip(self.elements, labels, strict=True) if label
        )

    def _conv(self, read: bool, out: bool) -> float:
        products = self.work * _PER_PRODUCT
        if out:
            read_apart = sum(self.elements[i] for i in self.main)
            return 0.0 if read else _PER_ELEMENT_IN_OTHER_ORDER * read_apart
        return products * (_GATHERED if read else _WINDOWS_COPIED)

    def _window(self, read: bool, out: bool) -> float:
        if read != out:
            return self.work
        return 0.0 if out else self.work * _WINDOW_ACROSS


def costs_of(function: func.FuncOp) -> Costs:
    """The costs of one program, read from its blocks."""
    buffers = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)]
    elements = [_count(ir.MemRefType(b.type).shape) for b in buffers]
    kind = kind_of(function)
    if kind is Kind.OPAQUE or not may_permute(function):
        return Costs("other", 0.0, elements, frozenset())
    blocks = [o for o in function.entry_block.operations if isinstance(o, BlockOp)]
    sums = [b for b in blocks if "R" in b.kinds.value]
    if not sums:
        main = _read_like_result(buffers)
        return Costs("map", 0.0, elements, main)
    if kind is Kind.REDUCTION:
        return Costs("map", 0.0, elements, frozenset())
    reads = _Sum(sums[0])
    pictures = reads.pictures()
    main = frozenset(i for i, b in enumerate(buffers[:-1]) if b in pictures)
    if not main or not reads.is_of_pictures:
        return Costs("other", 0.0, elements, frozenset())
    kind_of_sum = "window" if reads.keeps_channels(pictures) else "conv"
    work = _count(sums[0].static_extents)
    return Costs(kind_of_sum, work, elements, main)


def _count(sizes: Iterable[int]) -> float:
    return math.prod(float(s) if s >= 0 else _UNKNOWN for s in sizes)


def _read_like_result(buffers: Sequence[ir.Value]) -> frozenset[int]:
    """Inputs of as many dimensions as the result, unless they hold a number a channel."""
    out = ir.MemRefType(buffers[-1].type)
    shapes = [list(ir.MemRefType(b.type).shape) for b in buffers[:-1]]
    return frozenset(
        i
        for i, shape in enumerate(shapes)
        if len(shape) == out.rank and sum(size != 1 for size in shape) > 1
    )


class _Sum:
    """What a block with a sum reads and writes.

    Attributes:
        out: its indices of the result.
        reads: buffers and indices of what is read beside the result.
    """

    def __init__(self, block: BlockOp) -> None:
        arguments = block.body.blocks[0].arguments
        axes = {a: i for i, a in enumerate(arguments)}
        kinds = block.kinds.value
        self._spatial = {i for i, kind in enumerate(kinds) if kind == "S"}
        operations = list(walk(block))
        stores = [o for o in operations if o.operation.name == "memref.store"]
        written = stores[-1].operands[1]
        self.out = [linear_in(i, axes) for i in list(stores[-1].operands)[2:]]
        self.reads = [
            (o.operands[0], [linear_in(i, axes) for i in list(o.operands)[1:]])
            for o in operations
            if o.operation.name == "memref.load" and o.operands[0] != written
        ]

    @property
    def is_of_pictures(self) -> bool:
        """Whether what is no picture is the same for all pictures of a batch."""
        batch = self.out[0].coefficients.keys() if self.out[0] is not None else set()
        pictures = self.pictures()
        return all(
            form is not None and not form.coefficients.keys() & batch
            for buffer, forms in self.reads
            if buffer not in pictures
            for form in forms
        )

    def pictures(self) -> set[ir.Value]:
        """Buffers read along the result's axes behind the channels, in each dimension."""
        return {
            buffer
            for buffer, forms in self.reads
            if len(forms) == len(self.out) > 2 and all(map(self._moves, forms[2:]))
        }

    def _moves(self, form: Linear | None) -> bool:
        return form is not None and bool(form.coefficients.keys() & self._spatial)

    def keeps_channels(self, pictures: Container[ir.Value]) -> bool:
        """Whether every channel is summed up by itself."""
        read = [forms[1] for buffer, forms in self.reads if buffer in pictures]
        return all(form is not None and form == self.out[1] for form in read)
