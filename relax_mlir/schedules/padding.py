"""Implicit padding: masked reads of the unpadded source instead of a padded copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from mlir import ir

from relax_mlir.analysis.index_maps import affine_form, constant_of
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.traversal import operations_named, own_operations
from relax_mlir.schedules.builder import IndexLike, add, broadcast, less, op, subtract
from relax_mlir.schedules.kernel_view import Kernel, Statement
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["Padding", "lane_mask", "split_padding", "window_masks"]


@dataclass(frozen=True)
class Padding:
    """A padded buffer that is not materialized.

    Attributes:
        buffer: the temporary of the padded copy; source: the unpadded buffer.
        before: leading padding of each dimension.
        fill: value of the padding.
        read: sizes of the leading part of the source that is read; None for all of it.
    """

    buffer: ir.Value
    source: ir.Value
    before: Sequence[int]
    fill: ir.Attribute
    read: Sequence[int] | None = None

    @property
    def sizes(self) -> list[int]:
        """Sizes of the part of the source that is read."""
        if self.read is not None:
            return list(self.read)
        return list(ir.MemRefType(self.source.type).shape)

    def may_be_outside(self, dimension: int, least: int, most: int) -> bool:
        """Whether an index in least..most of the padded buffer may be in the padding."""
        before = self.before[dimension]
        return least < before or most >= before + self.sizes[dimension]

    def is_inside(self, dimension: int, position: IndexLike) -> ir.Value:
        """An i1: whether an index of the padded buffer is inside the source."""
        # In unsigned arithmetic, an index before the source wraps to a large number.
        return less(subtract(position, self.before[dimension]), self.sizes[dimension])


def split_padding(kernel: Kernel) -> tuple[Padding | None, list[Statement]]:
    """Split a kernel into its leading padding statement, if any, and the other ones."""
    if not kernel.statements:
        return None, []
    first, *rest = kernel.statements
    attributes = first.op.attributes
    if attribute_names.PAD not in attributes:
        return None, list(kernel.statements)
    (load,) = operations_named(first.op, "memref.load")
    (branch,) = operations_named(first.op, "scf.if")
    *_, end = own_operations(branch.operation.regions[1].blocks[0])
    fill = end.operands[0].owner.attributes["value"]
    before = list(attributes[attribute_names.PAD])
    padding = Padding(first.outputs[0].buffer, load.operands[0], before, fill)
    if not _is_bounded_by_source(first, padding, load, branch.operands[0]):
        return None, list(kernel.statements)
    return padding, rest


def _is_bounded_by_source(
    statement: Statement, padding: Padding, load: ir.OpView, inside: ir.Value
) -> bool:
    """Whether the padding condition is exactly "out of bounds of the source".

    It is not for a slice of the source, beyond whose end the source has more elements.
    Dimensions without an upper bound in the condition are not padded.
    """
    axes = {
        op.results[0]: op.attributes["dim"].value
        for op in operations_named(statement.body, "linalg.index")
    }
    bounds = list(_upper_bounds(inside, axes))
    for dimension, position in enumerate(list(load.operands)[1:]):
        form, size = affine_form(position, axes), padding.sizes[dimension]
        if form != AffineForm({dimension: 1}, -padding.before[dimension]):
            return False
        if any(bound != size for bounded, bound in bounds if bounded == form):
            return False
    return True


_LESS = 2  # arith.cmpi predicate: slt


def _upper_bounds(
    condition: ir.Value, axes: Mapping[ir.Value, int]
) -> Iterator[tuple[AffineForm[int] | None, int | None]]:
    """The indices with an upper bound in a conjunction of comparisons, with that bound."""
    owner = condition.owner
    if isinstance(owner, ir.Block):
        return
    if owner.name == "arith.andi":
        for operand in owner.operands:
            yield from _upper_bounds(operand, axes)
    elif owner.name == "arith.cmpi":
        compared, bound = owner.operands
        if ir.IntegerAttr(owner.attributes["predicate"]).value == _LESS:
            yield affine_form(compared, axes), constant_of(bound)


def window_masks(
    image: Padding,
    corner: Sequence[IndexLike],
    last: Sequence[int],
    count: int,
    lanes: int,
) -> list[list[ir.Value | None]]:
    """Padding masks of the pixels of a square window of an NHWC image.

    Args:
        corner: row and column of the first pixel; last: their maxima over all windows.
        count: pixels along each side.

    Returns:
        [count][count]; None for pixels that are inside for all windows.
    """
    inside: list[list[ir.Value | None]] = [[], []]
    for conditions, axis, first, most in zip(inside, (1, 2), corner, last, strict=True):
        for i in range(count):
            may_be = image.may_be_outside(axis, i, most + i)
            conditions.append(image.is_inside(axis, add(first, i)) if may_be else None)
    return [[lane_mask([a, b], lanes) for b in inside[1]] for a in inside[0]]


def lane_mask(conditions: Sequence[ir.Value | None], lanes: int) -> ir.Value | None:
    """Broadcast a conjunction of i1 to a lane mask; None without conditions."""
    known = [c for c in conditions if c is not None]
    if not known:
        return None
    both = reduce(lambda a, b: op("arith.andi", a.type, a, b), known)
    return broadcast(both, lanes)
