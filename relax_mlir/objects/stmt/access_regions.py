"""Read and write regions of a block, derived from the accesses in its body.

This is the analysis of TVM's ``GetBlockReadWriteRegion``: per buffer, the bounding box of all
accesses over the loops inside the block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Range, Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.symbolic import intervals

__all__ = ["access_regions"]

Interval = tuple[PrimExpr, PrimExpr]  # inclusive lower and upper bound


def access_regions(
    block: statements.Block, nested: dict[int, statements.Regions] | None = None
) -> statements.Regions:
    """The read and write regions of a block, in terms of its iteration variables.

    The accumulator of a reduction block is not reported as read.

    Args:
        nested: cache of the regions of the blocks inside it, by id.
    """
    nested = {} if nested is None else nested
    own = {id(b) for b in block.alloc_buffers}
    visitor = _visit(block, own, nested)
    if visitor.consulted & visitor.writes.keys():
        visitor = _visit(block, own.union(visitor.writes), nested)
    writes = [r for r in visitor.regions(visitor.writes) if id(r.buffer) not in own]
    hidden = {id(r.buffer) for r in writes} if block.init is not None else set()
    reads = [
        r
        for r in visitor.regions(visitor.reads)
        if id(r.buffer) not in own and id(r.buffer) not in hidden
    ]
    return tuple(reads), tuple(writes)


def _visit(
    block: statements.Block, unknown: set[int], nested: dict[int, statements.Regions]
) -> _Accesses:
    visitor = _Accesses(block, unknown, nested)
    if block.init is not None:
        visitor.statement(block.init)
    visitor.statement(block.body)
    return visitor


class _Accesses:
    """Collects the buffer accesses of one block.

    Args:
        block: the block.
        unknown: ids of buffers whose contents may change during the block.
        nested: cache of the regions of the blocks inside it, by id.

    Attributes:
        reads, writes: per buffer, the accessed boxes.
        consulted: ids of the buffers from which indices are loaded.
    """

    def __init__(
        self,
        block: statements.Block,
        unknown: set[int],
        nested: dict[int, statements.Regions],
    ) -> None:
        self.reads: dict[int, tuple[Buffer, list[list[Interval]]]] = {}
        self.writes: dict[int, tuple[Buffer, list[list[Interval]]]] = {}
        self.consulted: set[int] = set()
        self._domains: dict[
            int, Interval | None
        ] = {}  # of loop variables; None if unknown
        self._lets: dict[Var, PrimExpr] = {}
        self._unknown = unknown
        self._nested = nested
        self._matched = {id(m.buffer): m.source for m in block.match_buffers}

    def statement(self, node: statements.Stmt | None) -> None:
        """Visits a statement and its nested statements."""
        if isinstance(node, statements.SeqStmt):
            for inner in node.seq:
                self.statement(inner)
        elif isinstance(node, statements.BufferStore):
            self._add(self.writes, node.buffer, _points(node.indices))
            self._exprs(node.value, *node.indices)
        elif isinstance(node, statements.For):
            self._loop(node)
        elif isinstance(node, statements.BlockRealize):
            self._realize(node)
        elif isinstance(node, statements.LetStmt):
            self._exprs(node.value)
            self._lets[node.var] = prim.substitute(node.value, self._lets)
            self.statement(node.body)
        elif node is not None:
            self._other(node)

    def _other(self, node: Any) -> None:
        if isinstance(node, statements.Evaluate):
            self._exprs(node.value)
            return
        self._exprs(*_scalars_of(node))
        for field in ("then_case", "else_case", "body"):
            self.statement(getattr(node, field, None))

    def _loop(self, node: statements.For) -> None:
        self._exprs(node.min, node.extent)
        first = prim.substitute(node.min, self._lets)
        last = prim.substitute(node.min + node.extent - 1, self._lets)
        low, high = self._interval(first), self._interval(simplify(last))
        known = None if low is None or high is None else (low[0], high[1])
        self._domains[id(node.loop_var)] = known
        self.statement(node.body)

    def _realize(self, node: statements.BlockRealize) -> None:
        self._exprs(*node.iter_values, node.predicate)
        inner = node.block
        variables = [a.var for a in inner.iter_vars]
        values = dict(zip(variables, node.iter_values, strict=True))
        tables = self.reads, self.writes
        for table, regions in zip(tables, self._regions_of(inner), strict=True):
            for region in regions:
                ranges = [_substituted(r, values) for r in region.region]
                self._add(table, region.buffer, ranges)

    def _regions_of(self, block: statements.Block) -> statements.Regions:
        if id(block) not in self._nested:
            self._nested[id(block)] = block.regions(self._nested)
        return self._nested[id(block)]

    def _exprs(self, *exprs: PrimExpr) -> None:
        for expr in exprs:
            if isinstance(expr, BufferLoad):
                self._add(self.reads, expr.buffer, _points(expr.indices))
            if isinstance(expr, prim.Call):
                self._opaque(expr)
            self._exprs(*expr.children())

    def _opaque(self, call: prim.Call) -> None:
        """A pointer passed to an external function: accesses the whole buffer."""
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
        ranges: Sequence[Range],
    ) -> None:
        source = self._matched.get(id(buffer))
        if source is not None:
            ranges, buffer = _source_region(source, ranges), source.buffer
        box = [
            self._range_interval(r, s)
            for r, s in zip(ranges, buffer.shape, strict=True)
        ]
        table.setdefault(id(buffer), (buffer, []))[1].append(box)

    def _range_interval(self, range_: Range, size: PrimExpr) -> Interval:
        """The interval of a range over the loops inside the block."""
        whole = (prim.const(0, size.dtype), simplify(size - 1))
        first = prim.substitute(range_.min, self._lets)
        low = self._interval(first)
        if low is None:
            return whole
        if isinstance(range_.extent, IntImm) and range_.extent.value == 1:
            return low
        last = prim.substitute(range_.min + range_.extent - 1, self._lets)
        high = self._interval(last)
        return whole if high is None else (low[0], high[1])

    def _interval(self, expr: PrimExpr) -> Interval | None:
        """Lower and upper bound of an expression over the loops, or None."""
        if isinstance(expr, Var):
            return self._domains.get(id(expr), (expr, expr))
        parts = list(prim.post_order(expr))
        loads = {self._source_of(t.buffer) for t in parts if isinstance(t, BufferLoad)}
        self.consulted |= loads
        if loads & self._unknown:
            return None
        if not any(id(t) in self._domains for t in parts):
            return expr, expr
        combine = _COMBINE.get(type(expr))
        if combine is None:
            return None
        sides = [self._interval(child) for child in expr.children()]
        if any(s is None for s in sides):
            return None
        return combine(*sides)

    def _source_of(self, buffer: Buffer) -> int:
        """The id of a buffer, or of the source of a matched buffer."""
        source = self._matched.get(id(buffer))
        return id(buffer if source is None else source.buffer)

    def regions(
        self, table: Mapping[int, tuple[Buffer, list[list[Interval]]]]
    ) -> list[BufferRegion]:
        """The bounding box of all accesses of each buffer."""
        return [BufferRegion(b, _hull(boxes)) for b, boxes in table.values()]


def _scalars_of(node: Any) -> list[PrimExpr]:
    return [
        value
        for field in ("condition", "value")
        if isinstance(value := getattr(node, field, None), PrimExpr)
    ]


def _points(indices: Sequence[PrimExpr]) -> list[Range]:
    return [_index_range(i) for i in indices]


def _index_range(index: PrimExpr) -> Range:
    """The range of an index; for a vector index, from the first lane to the last."""
    if isinstance(index, prim.Broadcast):
        return _index_range(index.value)
    if not isinstance(index, prim.Ramp):
        return Range.from_min_extent(index, 1)
    return Range.from_min_extent(index.base, (index.lanes - 1) * index.stride + 1)


def _substituted(range_: Range, values: Mapping[Var, PrimExpr]) -> Range:
    return Range.from_min_extent(
        prim.substitute(range_.min, values), prim.substitute(range_.extent, values)
    )


def _source_region(source: BufferRegion, ranges: Sequence[Range]) -> list[Range]:
    """The region of a matched buffer as a region of its source."""
    inner = list(ranges)
    dropped = len(source.region) - len(inner)
    found: list[Range] = []
    for outer in source.region:
        extent = simplify(outer.extent)
        is_one = isinstance(extent, IntImm) and extent.value == 1
        if dropped and is_one:
            dropped -= 1
            found.append(outer)
        else:
            range_ = inner.pop(0)
            found.append(Range.from_min_extent(outer.min + range_.min, range_.extent))
    return found


def _hull(boxes: Sequence[Sequence[Interval]]) -> list[Range]:
    ranges = []
    for same_dim in zip(*boxes, strict=True):
        low = _min_or_max(prim.Min, [interval[0] for interval in same_dim])
        high = _min_or_max(prim.Max, [interval[1] for interval in same_dim])
        if prim.structurally_equal(low, high):
            ranges.append(Range.from_min_extent(low, prim.const(1, low.dtype)))
        else:
            low = simplify(low)
            ranges.append(Range.from_min_extent(low, simplify(high - low + 1)))
    return ranges


def _min_or_max(kind: type[prim.BinaryExpr], ends: Sequence[PrimExpr]) -> PrimExpr:
    """The minimum or maximum of some bounds, with duplicates removed."""
    distinct: list[PrimExpr] = []
    for end in ends:
        if not any(prim.structurally_equal(end, other) for other in distinct):
            distinct.append(end)
    found = distinct[0]
    for end in distinct[1:]:
        found = simplify(kind(found, end))
    return found


def _constant(interval: Interval) -> IntImm | None:
    """The constant of an interval with a single value, or None."""
    low, high = interval
    return low if low is high and isinstance(low, IntImm) else None


def _mul(a: Interval, b: Interval) -> Interval | None:
    for (low, high), other in ((a, b), (b, a)):
        constant = _constant(other)
        if constant is not None:
            low, high = low * constant, high * constant
            return (low, high) if constant.value >= 0 else (high, low)
    return None


def _floor_div(a: Interval, b: Interval) -> Interval | None:
    low, high = a
    constant = _constant(b)
    if constant is None or constant.value <= 0:
        return None
    return low // constant, high // constant


def _floor_mod(a: Interval, b: Interval) -> Interval | None:
    low, high = a
    constant = _constant(b)
    if constant is None or constant.value <= 0:
        return None
    first, last = simplify(low // constant), simplify(high // constant)
    if prim.structurally_equal(first, last):
        return low % constant, high % constant
    return prim.const(0, constant.dtype), constant - 1


def _min(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    return prim.Min(a_low, b_low), prim.Min(a_high, b_high)


def _max(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    return prim.Max(a_low, b_low), prim.Max(a_high, b_high)


_COMBINE: Mapping[type, Any] = {
    prim.Add: intervals.add,
    prim.Sub: intervals.subtract,
    prim.Mul: _mul,
    prim.FloorDiv: _floor_div,
    prim.FloorMod: _floor_mod,
    prim.Min: _min,
    prim.Max: _max,
    prim.Cast: lambda a: a,
}
