"""Pads that a kernel does itself: what stands where its windows are outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.indexing import Linear, constant_of, linear_in
from relax_mlir.schedules.emit import Extent, add, broadcast, less, op, subtract
from relax_mlir.schedules.nest import Kernel, Statement
from relax_mlir.traversal import named, own_operations

__all__ = ["Padding", "mask_of", "split_padding", "window_masks"]


@dataclass(frozen=True)
class Padding:
    """A buffer that is padded.

    Attributes:
        buffer: the temporary that would hold the padded copy; source: what is copied.
        before: what comes before along each dimension.
        fill: the number outside.
        read: sizes of the leading part of the source that is read; None for all of it.
    """

    buffer: ir.Value
    source: ir.Value
    before: Sequence[int]
    fill: ir.Attribute
    read: Sequence[int] | None = None

    @property
    def sizes(self) -> list[int]:
        """Sizes of what is read of the source."""
        if self.read is not None:
            return list(self.read)
        return list(ir.MemRefType(self.source.type).shape)

    def may_be_outside(self, dimension: int, least: int, most: int) -> bool:
        """Whether a place of the padded buffer between two numbers can be outside."""
        before = self.before[dimension]
        return least < before or most >= before + self.sizes[dimension]

    def is_inside(self, dimension: int, place: Extent) -> ir.Value:
        """Whether a place of the padded buffer is inside of the source, as one bit."""
        # A place before the source wraps around to a number that is far beyond it.
        return less(subtract(place, self.before[dimension]), self.sizes[dimension])


def split_padding(kernel: Kernel) -> tuple[Padding | None, list[Statement]]:
    """What a kernel pads first, if it does, and its other statements."""
    if not kernel.statements:
        return None, []
    first, *rest = kernel.statements
    attributes = first.op.attributes
    if marks.PAD not in attributes:
        return None, list(kernel.statements)
    (load,) = named(first.op, "memref.load")
    (branch,) = named(first.op, "scf.if")
    *_, end = own_operations(branch.operation.regions[1].blocks[0])
    fill = end.operands[0].owner.attributes["value"]
    before = list(attributes[marks.PAD])
    padding = Padding(first.outputs[0].buffer, load.operands[0], before, fill)
    if not _is_bounded_by_source(first, padding, load, branch.operands[0]):
        return None, list(kernel.statements)
    return padding, rest


def _is_bounded_by_source(
    statement: Statement, padding: Padding, load: ir.OpView, inside: ir.Value
) -> bool:
    """Whether what counts as outside is exactly what the source does not have.

    Of a slice, elements beyond it count as outside although the source has them. Along a
    dimension without a bound all places are inside, however large the source is.
    """
    axes = {
        op.results[0]: op.attributes["dim"].value
        for op in named(statement.body, "linalg.index")
    }
    bounds = list(_upper_bounds(inside, axes))
    for dimension, place in enumerate(list(load.operands)[1:]):
        form, size = linear_in(place, axes), padding.sizes[dimension]
        if form != Linear({dimension: 1}, -padding.before[dimension]):
            return False
        if any(bound != size for bounded, bound in bounds if bounded == form):
            return False
    return True


_LESS = 2  # the predicate of arith.cmpi


def _upper_bounds(
    condition: ir.Value, axes: Mapping[ir.Value, int]
) -> Iterator[tuple[Linear | None, int | None]]:
    """The indices that a conjunction of comparisons bounds above, and by what."""
    owner = condition.owner
    if isinstance(owner, ir.Block):
        return
    if owner.name == "arith.andi":
        for operand in owner.operands:
            yield from _upper_bounds(operand, axes)
    elif owner.name == "arith.cmpi":
        compared, bound = owner.operands
        if ir.IntegerAttr(owner.attributes["predicate"]).value == _LESS:
            yield linear_in(compared, axes), constant_of(bound)


def window_masks(
    image: Padding,
    corner: Sequence[Extent],
    last: Sequence[int],
    count: int,
    lanes: int,
) -> list[list[ir.Value | None]]:
    """Masks of the pixels of a square window of an NHWC image.

    Args:
        corner: row and column of its first pixel; last: the largest that these are.
        count: pixels along each side.

    Returns:
        [count][count]; None for pixels that are inside wherever the window is.
    """
    inside: list[list[ir.Value | None]] = [[], []]
    for found, axis, place, most in zip(inside, (1, 2), corner, last, strict=True):
        for i in range(count):
            may_be = image.may_be_outside(axis, i, most + i)
            found.append(image.is_inside(axis, add(place, i)) if may_be else None)
    return [[mask_of([a, b], lanes) for b in inside[1]] for a in inside[0]]


def mask_of(conditions: Sequence[ir.Value | None], lanes: int) -> ir.Value | None:
    """A mask of all lanes where all conditions hold; None where none is open."""
    known = [c for c in conditions if c is not None]
    if not known:
        return None
    both = reduce(lambda a, b: op("arith.andi", a.type, a, b), known)
    return broadcast(both, lanes)
