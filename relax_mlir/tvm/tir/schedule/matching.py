"""Structural matching of a block against the description of a tensor intrinsic.

Both are traversed in parallel. Loops and iter vars of the description are bound to those of the
block, its buffers to sub-regions of the block's buffers, whose origin is the difference between
the indices of corresponding accesses.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import accesses, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, simplify
from relax_mlir.tvm.tir.schedule.state import (
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["Matcher"]


class Matcher:
    """Matches statements of a PrimFunc against those of a description.

    Attributes:
        indices: the symbols of the PrimFunc.
        buffers: the buffer of the PrimFunc bound to each buffer of the description.
        bases: the origin of the sub-region of each buffer of the PrimFunc.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.indices = IndexSymbols()
        self._described = IndexSymbols()
        self._substitution: dict[str, Dim] = {}
        self._inner_symbols: set[str] = set()
        self._values: dict[ir.Value, ir.Value] = {}
        self.buffers: dict[ir.Value, ir.Value] = {}
        self.bases: dict[ir.Value, list[Dim]] = {}

    def _fail(self, problem: str) -> ScheduleError:
        return ScheduleError(f"{self._where}: {problem}")

    def region(self, block: ir.Block, described: ir.Block) -> None:
        """Match two statement lists.

        Raises:
            ScheduleError: names the first difference.
        """
        actual, expected = tree.statements(block), tree.statements(described)
        if len(actual) != len(expected):
            raise self._fail(
                f"expected {len(expected)} consecutive statements, got {len(actual)}"
            )
        for op, other in zip(actual, expected, strict=True):
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
        wanted = [self._translate(d) for d in loop_bounds(self._described, other)]
        if list(bounds) != wanted:
            raise self._fail(
                f"{tree.describe(op)} has extent {bounds[1]} from {bounds[0]}: expected "
                f"{wanted[1]} from {wanted[0]}"
            )
        if tree.loop_kind(op) != tree.loop_kind(other):
            raise self._fail(
                f"{tree.describe(op)} is {tree.loop_kind(op)}: expected "
                f"{tree.loop_kind(other)}"
            )
        self._bind(loop_var(op), loop_var(other))
        self.region(tree.body(op), tree.body(other))

    def _bind(self, value: ir.Value, other: ir.Value) -> None:
        name = self.indices.symbol(value)
        self._inner_symbols.add(name)
        self._substitution[self._described.symbol(other)] = self.indices.of(value)
        self._values[other] = value

    def _translate(self, dim: Dim) -> Dim:
        return substitute(dim, self._substitution)

    def _block(self, op: ir.Operation, other: ir.Operation) -> None:
        described = tree.describe(op)
        if tree.iter_kinds(op) != tree.iter_kinds(other):
            raise self._fail(
                f"{described} has iter vars of kinds `{tree.iter_kinds(op)}`: expected "
                f"`{tree.iter_kinds(other)}`"
            )
        extents = iter_extents(self.indices, op)
        wanted = [self._translate(e) for e in iter_extents(self._described, other)]
        if extents != wanted:
            raise self._fail(
                f"the iter vars of {described} have the extents {extents}: expected {wanted}"
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
                raise self._fail(f"{described}: one of the two has an init block")
            for inner, other_inner in zip(region.blocks, given.blocks, strict=True):
                pairs = zip(inner.arguments, other_inner.arguments, strict=True)
                for argument, other_argument in pairs:
                    self._bind(argument, other_argument)
                self.region(inner, other_inner)

    def _index(self, value: ir.Value, other: ir.Value, role: str) -> None:
        dim = self.indices.of(value)
        wanted = self._translate(self._described.of(other))
        if dim != wanted:
            raise self._fail(f"{role}: expected the index {wanted}, got {dim}")

    def _access(self, op: ir.Operation, other: ir.Operation, first: int) -> None:
        """Match the accesses of two operations."""
        actual, described = op.operands[first], other.operands[first]
        name = accesses.buffer_name(actual)
        if self.buffers.setdefault(described, actual) != actual:
            raise self._fail(
                f"buffer `{accesses.buffer_name(described)}` of the description is bound to "
                f"`{accesses.buffer_name(self.buffers[described])}`: got `{name}`"
            )
        types = ir.MemRefType(actual.type), ir.MemRefType(described.type)
        if types[0].element_type != types[1].element_type:
            raise self._fail(
                f"buffer `{name}` has elements of type {types[0].element_type}: expected "
                f"{types[1].element_type}"
            )
        limits = limits_at(self.indices, tree.parent_of(op))
        access_indices = [self.indices.of(v) for v in list(op.operands)[first + 1 :]]
        given = list(other.operands)[first + 1 :]
        wanted = [self._translate(self._described.of(v)) for v in given]
        extra_rank = len(access_indices) - len(wanted)
        if extra_rank < 0:
            raise self._fail(
                f"buffer `{name}` has {len(access_indices)} dimensions: expected at least "
                f"{len(wanted)}"
            )
        base = access_indices[:extra_rank]
        pairs = zip(access_indices[extra_rank:], wanted, strict=True)
        base += [simplify(d - w, limits) for d, w in pairs]
        is_fixed = not any(self._inner_symbols & set(symbols_of(d)) for d in base)
        if not is_fixed or self.bases.setdefault(actual, base) != base:
            raise self._fail(
                f"buffer `{name}` is accessed at {_text(access_indices)}: expected a fixed origin "
                f"plus {_text(wanted)}"
            )

    def _value(self, value: ir.Value, other: ir.Value) -> None:
        """Match two computed values."""
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
            raise self._fail(f"`{op.name}`: expected another result type")
        if op.name == "memref.load":
            self._access(op, other, 0)
            return
        if len(op.operands) != len(other.operands):
            raise self._fail(f"`{op.name}`: expected {len(other.operands)} operands")
        for value, given in zip(op.operands, other.operands, strict=True):
            self._value(value, given)
        for region, given in zip(op.regions, other.regions, strict=True):
            if len(region.blocks) != len(given.blocks):
                raise self._fail(f"`{op.name}`: expected {len(given.blocks)} branches")
            for inner, described in zip(region.blocks, given.blocks, strict=True):
                self.region(inner, described)
                self._results(inner, described)

    def _results(self, block: ir.Block, described: ir.Block) -> None:
        *_, end = own_operations(block)
        *_, wanted = own_operations(described)
        for value, given in zip(end.operands, wanted.operands, strict=True):
            self._value(value, given)


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of an operation without debug names."""
    return {n: op.attributes[n] for n in op.attributes if n != attribute_names.NAME}


def _text(access_indices: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, access_indices))}]"
