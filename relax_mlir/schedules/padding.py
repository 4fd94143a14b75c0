"""Pads that a kernel does itself: what stands where its windows are outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.rewriting import walk
from relax_mlir.schedules.emit import Extent, less, subtract
from relax_mlir.schedules.nest import Kernel, Statement
from relax_mlir.traversal import own_operations

__all__ = ["Padding", "split_padding"]


@dataclass(frozen=True)
class Padding:
    """A buffer that is padded.

    Attributes:
        buffer: the temporary that would hold the padded copy; source: what is copied.
        before: what comes before along each dimension.
        fill: the number outside.
    """

    buffer: ir.Value
    source: ir.Value
    before: Sequence[int]
    fill: ir.Attribute

    @property
    def sizes(self) -> list[int]:
        """Of the source."""
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
    (load,) = (o for o in walk(first.op) if o.operation.name == "memref.load")
    (branch,) = (o for o in own_operations(first.body) if o.operation.name == "scf.if")
    *_, end = own_operations(branch.operation.regions[1].blocks[0])
    fill = end.operands[0].owner.attributes["value"]
    before = list(attributes[marks.PAD])
    return Padding(first.outputs[0].buffer, load.operands[0], before, fill), rest
