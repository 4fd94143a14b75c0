"""What a tensor program costs by where its pictures have their channels."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.indexing import Linear, linear_in
from relax_mlir.kinds import Kind, kind_of
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.rewriting import walk
from relax_mlir.traversal import own_operations

__all__ = ["Costs", "costs_of", "count_of"]

_UNKNOWN = 56  # stands for a size that only the run knows

# Cycles of one thread, by and large: what matters is that they are in one unit.
_PER_ELEMENT = 1.0  # of a copy that goes across the rows of one side
_READ_ACROSS = 0.3  # rows of a product, an element, where pixels lie side by side
_FEW_CHANNELS = 16  # fewer take less, in proportion
_PER_PRODUCT = 1 / 32  # two multiply-adds of sixteen lanes
_WINDOWS_COPIED = 0.15  # of the products' time: windows become columns of a panel
_GATHERED = 5.0  # columns that do not lie side by side
_WINDOW_ACROSS = 0.1  # a product of a sum without channels, as rows of pixels


@dataclass(frozen=True)
class Costs:
    """What a program costs for the labels of its buffers; a label is True for channels last.

    Attributes:
        kind: ``conv``, ``window``, ``map`` or ``other``.
        elements: of each buffer, the result last.
        along: inputs that are read element by element as the result is written.
        pictures: inputs whose windows, or points, are summed up.
        work: products of the sum; across: what it costs to read pictures as they were.
    """

    kind: str
    elements: Sequence[float]
    along: frozenset[int] = frozenset()
    pictures: frozenset[int] = frozenset()
    work: float = 0.0
    across: float = 0.0

    @property
    def beside(self) -> frozenset[int]:
        """Inputs that are read beside a sum, which must have the label of the result."""
        return self.along if self.pictures else frozenset()

    def of(self, labels: Sequence[bool]) -> float:
        """Cycles more than with the best labels."""
        *inputs, out = labels
        if self.kind == "other":
            pairs = zip(self.elements, labels, strict=True)
            return _PER_ELEMENT * sum(count for count, label in pairs if label)
        apart = [self.elements[i] for i in self.along if inputs[i] != out]
        total = _PER_ELEMENT * sum(apart)
        if self.pictures:
            read = any(inputs[i] for i in self.pictures)
            sum_of = self._conv if self.kind == "conv" else self._window
            total += sum_of(read, out)
        return total

    def _conv(self, read: bool, out: bool) -> float:
        if out:
            return 0.0 if read else self.across
        return self.work * _PER_PRODUCT * (_GATHERED if read else _WINDOWS_COPIED)

    def _window(self, read: bool, out: bool) -> float:
        if read != out:
            return self.work
        return 0.0 if out else self.work * _WINDOW_ACROSS


def costs_of(function: func.FuncOp) -> Costs:
    """The costs of one program, read from its blocks."""
    buffers = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)]
    elements = [count_of(ir.MemRefType(b.type).shape) for b in buffers]
    kind = kind_of(function)
    if kind is Kind.OPAQUE or not may_permute(function):
        return Costs("other", elements)
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    sums = [b for b in blocks if "R" in b.kinds.value]
    maps = [b for b in blocks if b not in sums]
    along = _read_along(maps, buffers)
    if not sums or kind is Kind.REDUCTION:
        return Costs("map", elements, along)
    found = _Sum(sums[0])
    read = found.pictures()
    pictures = frozenset(i for i, b in enumerate(buffers[:-1]) if b in read)
    if not pictures or not found.is_of_pictures:
        return Costs("other", elements)
    sizes = [(elements[i], ir.MemRefType(buffers[i].type).shape[1]) for i in pictures]
    return Costs(
        "window" if found.keeps_channels(read) else "conv",
        elements,
        along,
        pictures,
        work=count_of(sums[0].static_extents),
        across=sum(n * _READ_ACROSS * _share(channels) for n, channels in sizes),
    )


def count_of(sizes: Iterable[Dim]) -> float:
    """How many elements there are, or points; a guess where a size is open."""
    known = (float(s) if isinstance(s, int) and s >= 0 else _UNKNOWN for s in sizes)
    return math.prod(known)


def _share(channels: int) -> float:
    return min(1.0, channels / _FEW_CHANNELS) if channels >= 0 else 1.0


def _read_along(maps: Iterable[BlockOp], buffers: Sequence[ir.Value]) -> frozenset[int]:
    """Inputs that maps read along each dimension as they write along it."""
    read: set[ir.Value] = set()
    across: set[ir.Value] = set()
    for block in maps:
        axes = {a: i for i, a in enumerate(block.body.blocks[0].arguments)}
        operations = list(walk(block))
        stores = [o for o in operations if o.operation.name == "memref.store"]
        out = [linear_in(i, axes) for i in list(stores[-1].operands)[2:]]
        for load in operations:
            if load.operation.name == "memref.load":
                where = [linear_in(i, axes) for i in list(load.operands)[1:]]
                (read if _goes_along(where, out) else across).add(load.operands[0])
    return frozenset(
        number
        for number, buffer in enumerate(buffers[:-1])
        if buffer in read - across
        and sum(size != 1 for size in ir.MemRefType(buffer.type).shape) > 1
    )


def _goes_along(read: Sequence[Linear | None], out: Sequence[Linear | None]) -> bool:
    return len(read) == len(out) and all(
        here is not None
        and there is not None
        and here.coefficients.keys() <= there.coefficients.keys()
        for here, there in zip(read, out, strict=True)
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
