"""Which boxes of buffers a block reads and writes, derived from what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import IntImm, PrimExpr, Range, Var
from relax_mlir.objects.simplify import simplify

__all__ = ["access_regions"]

Interval = tuple[PrimExpr, PrimExpr]  # the least and the greatest value


def access_regions(
    block: stmt.Block,
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """What a block reads and what it writes, in terms of its axes.

    A reduction block does not count what it accumulates in as read.
    """
    own = {id(b) for b in block.alloc_buffers}
    visitor = _visited(block, own)
    if visitor.consulted & visitor.writes.keys():
        visitor = _visited(block, own.union(visitor.writes))
    writes = [r for r in visitor.regions(visitor.writes) if id(r.buffer) not in own]
    hidden = {id(r.buffer) for r in writes} if block.init is not None else set()
    reads = [
        r
        for r in visitor.regions(visitor.reads)
        if id(r.buffer) not in own and id(r.buffer) not in hidden
    ]
    return tuple(reads), tuple(writes)


def _visited(block: stmt.Block, unknown: set[int]) -> _Accesses:
    visitor = _Accesses(block, unknown)
    if block.init is not None:
        visitor.statement(block.init)
    visitor.statement(block.body)
    return visitor


class _Accesses:
    """Collects the accesses of one block.

    Args:
        block: the block.
        unknown: buffers whose values are not known before it runs, by their ids.

    Attributes:
        reads, writes: per buffer, the boxes that are touched.
        consulted: the buffers from which indices are loaded.
    """

    def __init__(self, block: stmt.Block, unknown: set[int]) -> None:
        self.reads: dict[int, tuple[Buffer, list[list[Interval]]]] = {}
        self.writes: dict[int, tuple[Buffer, list[list[Interval]]]] = {}
        self.consulted: set[int] = set()
        self._domains: dict[int, Interval | None] = {}  # of loops; None if not known
        self._lets: dict[Var, PrimExpr] = {}
        self._unknown = unknown
        self._matched = {id(m.buffer): m.source for m in block.match_buffers}

    def statement(self, node: stmt.Stmt | None) -> None:
        """Collect from a statement and from those in it."""
        if isinstance(node, stmt.SeqStmt):
            for inner in node.seq:
                self.statement(inner)
        elif isinstance(node, stmt.BufferStore):
            self._add(self.writes, node.buffer, _points(node.indices))
            self._terms(node.value, *node.indices)
        elif isinstance(node, stmt.For):
            self._loop(node)
        elif isinstance(node, stmt.BlockRealize):
            self._realize(node)
        elif isinstance(node, stmt.LetStmt):
            self._terms(node.value)
            self._lets[node.var] = prim.substitute(node.value, self._lets)
            self.statement(node.body)
        elif node is not None:
            self._other(node)

    def _other(self, node: Any) -> None:
        if isinstance(node, stmt.Evaluate):
            self._terms(node.value)
            return
        self._terms(*_scalars_of(node))
        for field in ("then_case", "else_case", "body"):
            self.statement(getattr(node, field, None))

    def _loop(self, node: stmt.For) -> None:
        self._terms(node.min, node.extent)
        first = prim.substitute(node.min, self._lets)
        last = prim.substitute(node.min + node.extent - 1, self._lets)
        low, high = self._interval(first), self._interval(simplify(last))
        known = None if low is None or high is None else (low[0], high[1])
        self._domains[id(node.loop_var)] = known
        self.statement(node.body)

    def _realize(self, node: stmt.BlockRealize) -> None:
        self._terms(*node.iter_values, node.predicate)
        inner = node.block
        variables = [a.var for a in inner.iter_vars]
        values = dict(zip(variables, node.iter_values, strict=True))
        for table, regions in ((self.reads, inner.reads), (self.writes, inner.writes)):
            for region in regions:
                runs = [_substituted(r, values) for r in region.region]
                self._add(table, region.buffer, runs)

    def _terms(self, *terms: PrimExpr) -> None:
        for term in terms:
            if isinstance(term, BufferLoad):
                self._add(self.reads, term.buffer, _points(term.indices))
            if isinstance(term, prim.Call):
                self._opaque(term)
            self._terms(*term.children())

    def _opaque(self, call: prim.Call) -> None:
        """A pointer that goes to a foreign function: all of the buffer."""
        for argument in call.args:
            buffer = argument.buffer if isinstance(argument, Pointer) else None
            if buffer is None:
                continue
            mask = 3
            if call.op_name == "tvm_access_ptr" and isinstance(call.args[-1], IntImm):
                mask = call.args[-1].value
            whole = [Range(0, size) for size in buffer.shape]
            for bit, table in ((1, self.reads), (2, self.writes)):
                if mask & bit:
                    self._add(table, buffer, whole)

    def _add(
        self,
        table: dict[int, tuple[Buffer, list[list[Interval]]]],
        buffer: Buffer,
        runs: Sequence[Range],
    ) -> None:
        source = self._matched.get(id(buffer))
        if source is not None:
            runs, buffer = _through(source, runs), source.buffer
        box = [self._run(r, s) for r, s in zip(runs, buffer.shape, strict=True)]
        table.setdefault(id(buffer), (buffer, []))[1].append(box)

    def _run(self, run: Range, size: PrimExpr) -> Interval:
        """The values that a run takes over the loops inside of the block."""
        whole = (prim.const(0, size.dtype), simplify(size - 1))
        first = prim.substitute(run.min, self._lets)
        low = self._interval(first)
        if low is None:
            return whole
        if isinstance(run.extent, IntImm) and run.extent.value == 1:
            return low
        last = prim.substitute(run.min + run.extent - 1, self._lets)
        high = self._interval(last)
        return whole if high is None else (low[0], high[1])

    def _interval(self, term: PrimExpr) -> Interval | None:
        """The least and the greatest value of a term, or None."""
        if isinstance(term, Var):
            return self._domains.get(id(term), (term, term))
        parts = list(prim.post_order(term))
        loads = {self._source_of(t.buffer) for t in parts if isinstance(t, BufferLoad)}
        self.consulted |= loads
        if loads & self._unknown:
            return None
        if not any(id(t) in self._domains for t in parts):
            return term, term
        combine = _COMBINE.get(type(term))
        if combine is None:
            return None
        sides = [self._interval(child) for child in term.children()]
        if any(s is None for s in sides):
            return None
        return combine(*sides)

    def _source_of(self, buffer: Buffer) -> int:
        """The id of a buffer, or of what it is matched with."""
        source = self._matched.get(id(buffer))
        return id(buffer if source is None else source.buffer)

    def regions(
        self, table: Mapping[int, tuple[Buffer, list[list[Interval]]]]
    ) -> list[BufferRegion]:
        """The smallest box around all accesses of each buffer."""
        return [BufferRegion(b, _hull(boxes)) for b, boxes in table.values()]


def _scalars_of(node: Any) -> list[PrimExpr]:
    return [
        value
        for field in ("condition", "value")
        if isinstance(value := getattr(node, field, None), PrimExpr)
    ]


def _points(indices: Sequence[PrimExpr]) -> list[Range]:
    return [_run_of(i) for i in indices]


def _run_of(index: PrimExpr) -> Range:
    """The places that an index means: of a vector, from the first lane to the last."""
    if isinstance(index, prim.Broadcast):
        return _run_of(index.value)
    if not isinstance(index, prim.Ramp):
        return Range.from_min_extent(index, 1)
    return Range.from_min_extent(index.base, (index.lanes - 1) * index.stride + 1)


def _substituted(run: Range, values: Mapping[Var, PrimExpr]) -> Range:
    return Range.from_min_extent(
        prim.substitute(run.min, values), prim.substitute(run.extent, values)
    )


def _through(source: BufferRegion, runs: Sequence[Range]) -> list[Range]:
    """A box of a matched buffer as a box of what it is matched with."""
    inner = list(runs)
    dropped = len(source.region) - len(inner)
    found: list[Range] = []
    for outer in source.region:
        extent = simplify(outer.extent)
        is_one = isinstance(extent, IntImm) and extent.value == 1
        if dropped and is_one:
            dropped -= 1
            found.append(outer)
        else:
            run = inner.pop(0)
            found.append(Range.from_min_extent(outer.min + run.min, run.extent))
    return found


def _hull(boxes: Sequence[Sequence[Interval]]) -> list[Range]:
    runs = []
    for intervals in zip(*boxes, strict=True):
        low = _extreme(prim.Min, [interval[0] for interval in intervals])
        high = _extreme(prim.Max, [interval[1] for interval in intervals])
        if prim.structurally_equal(low, high):
            runs.append(Range.from_min_extent(low, prim.const(1, low.dtype)))
        else:
            low = simplify(low)
            runs.append(Range.from_min_extent(low, simplify(high - low + 1)))
    return runs


def _extreme(kind: type[prim.BinaryExpr], ends: Sequence[PrimExpr]) -> PrimExpr:
    """The least or the greatest of some ends, of which many may be the same."""
    different: list[PrimExpr] = []
    for end in ends:
        if not any(prim.structurally_equal(end, other) for other in different):
            different.append(end)
    found = different[0]
    for end in different[1:]:
        found = simplify(kind(found, end))
    return found


def _sum(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    return a_low + b_low, a_high + b_high


def _difference(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    return a_low - b_high, a_high - b_low


def _number(interval: Interval) -> IntImm | None:
    """The number that is all of an interval, or None."""
    low, high = interval
    return low if low is high and isinstance(low, IntImm) else None


def _product(a: Interval, b: Interval) -> Interval | None:
    for (low, high), other in ((a, b), (b, a)):
        number = _number(other)
        if number is not None:
            low, high = low * number, high * number
            return (low, high) if number.value >= 0 else (high, low)
    return None


def _quotient(a: Interval, b: Interval) -> Interval | None:
    low, high = a
    number = _number(b)
    if number is None or number.value <= 0:
        return None
    return low // number, high // number


def _remainder(a: Interval, b: Interval) -> Interval | None:
    low, high = a
    number = _number(b)
    if number is None or number.value <= 0:
        return None
    first, last = simplify(low // number), simplify(high // number)
    if prim.structurally_equal(first, last):
        return low % number, high % number
    return prim.const(0, number.dtype), number - 1


def _least(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    return prim.Min(a_low, b_low), prim.Min(a_high, b_high)


def _greatest(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    return prim.Max(a_low, b_low), prim.Max(a_high, b_high)


_COMBINE: Mapping[type, Any] = {
    prim.Add: _sum,
    prim.Sub: _difference,
    prim.Mul: _product,
    prim.FloorDiv: _quotient,
    prim.FloorMod: _remainder,
    prim.Min: _least,
    prim.Max: _greatest,
    prim.Cast: lambda a: a,
}
