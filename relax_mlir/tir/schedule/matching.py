"""Comparing a piece of a program with a description of what it should compute.

Both are walked in step. Loops and axes of the description stand for those of the program,
its buffers for boxes of the program's: what the indices of all accesses differ by is where
the box begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import accesses, tree
from relax_mlir.tir.schedule.indices import Indices, simplify
from relax_mlir.tir.schedule.state import (
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.traversal import own_operations

__all__ = ["Matcher"]


class Matcher:
    """Compares statements of a program with those of a description.

    Attributes:
        indices: what expressions of the program mean.
        buffers: the buffer of the program for each of the description.
        bases: where the box of a buffer of the program begins.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.indices = Indices()
        self._theirs = Indices()
        self._known: dict[str, Dim] = {}
        self._inner: set[str] = set()
        self._values: dict[ir.Value, ir.Value] = {}
        self.buffers: dict[ir.Value, ir.Value] = {}
        self.bases: dict[ir.Value, list[Dim]] = {}

    def _fail(self, problem: str) -> ScheduleError:
        return ScheduleError(f"{self._where}: {problem}")

    def region(self, ours: ir.Block, theirs: ir.Block) -> None:
        """Compare two lists of statements.

        Raises:
            ScheduleError: says what differs.
        """
        mine, wanted = tree.statements(ours), tree.statements(theirs)
        if len(mine) != len(wanted):
            raise self._fail(
                f"expected {len(wanted)} statements one after the other, got {len(mine)}"
            )
        for op, other in zip(mine, wanted, strict=True):
            self._statement(op, other)

    def _statement(self, op: ir.Operation, other: ir.Operation) -> None:
        if op.name != other.name:
            raise self._fail(f"expected `{other.name}`, got `{op.name}`")
        if tree.is_loop(op):
            self._loop(op, other)
        elif tree.is_block(op):
            self._block(op, other)
        elif op.name == "memref.store":
            self._access(op, other, 1)
            self._value(op.operands[0], other.operands[0])
        else:
            self._operation(op, other)

    def _loop(self, op: ir.Operation, other: ir.Operation) -> None:
        bounds = loop_bounds(self.indices, op)
        wanted = [self._translated(d) for d in loop_bounds(self._theirs, other)]
        if list(bounds) != wanted:
            raise self._fail(
                f"{tree.describe(op)} has {bounds[1]} steps from {bounds[0]} on: expected "
                f"{wanted[1]} from {wanted[0]} on"
            )
        if tree.kind_of(op) != tree.kind_of(other):
            raise self._fail(
                f"{tree.describe(op)} is {tree.kind_of(op)}: expected "
                f"{tree.kind_of(other)}"
            )
        self._stand_for(loop_var(op), loop_var(other))
        self.region(tree.body(op), tree.body(other))

    def _stand_for(self, value: ir.Value, other: ir.Value) -> None:
        name = self.indices.symbol(value)
        self._inner.add(name)
        self._known[self._theirs.symbol(other)] = self.indices.of(value)
        self._values[other] = value

    def _translated(self, dim: Dim) -> Dim:
        return substitute(dim, self._known)

    def _block(self, op: ir.Operation, other: ir.Operation) -> None:
        described = tree.describe(op)
        if tree.kinds_of(op) != tree.kinds_of(other):
            raise self._fail(
                f"{described} has axes of kinds `{tree.kinds_of(op)}`: expected "
                f"`{tree.kinds_of(other)}`"
            )
        extents = extents_of(self.indices, op)
        wanted = [self._translated(e) for e in extents_of(self._theirs, other)]
        if extents != wanted:
            raise self._fail(
                f"the axes of {described} have the extents {extents}: expected {wanted}"
            )
        if tree.annotations_of(op) != tree.annotations_of(other):
            raise self._fail(
                f"{described} has the annotations {tree.annotations_of(op)}: expected "
                f"{tree.annotations_of(other)}"
            )
        for value, given in zip(tree.bindings(op), tree.bindings(other), strict=True):
            self._index(value, given, described)
        for region, given in zip(op.regions, other.regions, strict=True):
            if len(region.blocks) != len(given.blocks):
                raise self._fail(f"{described}: one of the two has a start value")
            for inner, theirs in zip(region.blocks, given.blocks, strict=True):
                pairs = zip(inner.arguments, theirs.arguments, strict=True)
                for argument, their in pairs:
                    self._stand_for(argument, their)
                self.region(inner, theirs)

    def _index(self, value: ir.Value, other: ir.Value, what: str) -> None:
        dim = self.indices.of(value)
        wanted = self._translated(self._theirs.of(other))
        if dim != wanted:
            raise self._fail(f"{what}: expected the index {wanted}, got {dim}")

    def _access(self, op: ir.Operation, other: ir.Operation, first: int) -> None:
        """Compare where two operations access a buffer."""
        ours, theirs = op.operands[first], other.operands[first]
        name = accesses.buffer_name(ours)
        if self.buffers.setdefault(theirs, ours) != ours:
            raise self._fail(
                f"buffer `{accesses.buffer_name(theirs)}` of the description stands for "
                f"`{accesses.buffer_name(self.buffers[theirs])}`: got `{name}`"
            )
        types = ir.MemRefType(ours.type), ir.MemRefType(theirs.type)
        if types[0].element_type != types[1].element_type:
            raise self._fail(
                f"buffer `{name}` has elements of type {types[0].element_type}: expected "
                f"{types[1].element_type}"
            )
        limits = limits_at(self.indices, tree.parent_of(op))
        place = [self.indices.of(v) for v in list(op.operands)[first + 1 :]]
        given = list(other.operands)[first + 1 :]
        wanted = [self._translated(self._theirs.of(v)) for v in given]
        ahead = len(place) - len(wanted)
        if ahead < 0:
            raise self._fail(
                f"buffer `{name}` has {len(place)} dimensions: expected at least "
                f"{len(wanted)}"
            )
        base = place[:ahead]
        pairs = zip(place[ahead:], wanted, strict=True)
        base += [simplify(d - w, limits) for d, w in pairs]
        is_fixed = not any(self._inner & set(symbols_of(d)) for d in base)
        if not is_fixed or self.bases.setdefault(ours, base) != base:
            raise self._fail(
                f"buffer `{name}` is accessed at {_text(place)}: expected a fixed place "
                f"plus {_text(wanted)}"
            )

    def _value(self, value: ir.Value, other: ir.Value) -> None:
        """Compare what is computed."""
        if isinstance(value.type, ir.IndexType):
            self._index(value, other, "a value")
            return
        if isinstance(value.owner, ir.Block) or isinstance(other.owner, ir.Block):
            if self._values.get(other) != value:
                raise self._fail(f"expected `{other}`, got `{value}`")
            return
        self._operation(value.owner.operation, other.owner.operation)

    def _operation(self, op: ir.Operation, other: ir.Operation) -> None:
        if op.name != other.name or _attributes(op) != _attributes(other):
            raise self._fail(f"expected `{other.name}`, got `{op.name}`")
        types = [r.type for r in op.results], [r.type for r in other.results]
        if types[0] != types[1]:
            raise self._fail(f"`{op.name}`: expected another type of result")
        if op.name == "memref.load":
            self._access(op, other, 0)
            return
        if len(op.operands) != len(other.operands):
            raise self._fail(f"`{op.name}`: expected {len(other.operands)} operands")
        for value, given in zip(op.operands, other.operands, strict=True):
            self._value(value, given)
        for region, given in zip(op.regions, other.regions, strict=True):
            if len(region.blocks) != len(given.blocks):
                raise self._fail(f"`{op.name}`: expected as many branches")
            for inner, theirs in zip(region.blocks, given.blocks, strict=True):
                self.region(inner, theirs)
                self._results(inner, theirs)

    def _results(self, ours: ir.Block, theirs: ir.Block) -> None:
        *_, end = own_operations(ours)
        *_, wanted = own_operations(theirs)
        for value, given in zip(end.operands, wanted.operands, strict=True):
            self._value(value, given)


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """What an operation is said to do, without what only readers see."""
    return {n: op.attributes[n] for n in op.attributes if n != marks.NAME}


def _text(place: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, place))}]"
