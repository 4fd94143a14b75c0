"""Rows: the rule for everything that has no better one.

The statements of a kernel share outer axes (the rows of a softmax, the channels of a
normalisation). One tile is one row: every statement runs on it in turn, vectorised
along the axis that most of its operands step through one element at a time, and the
buffers between the statements are one row long.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    ceil_div,
    constant,
    div,
    for_loop,
    index,
    minimum,
    multiply,
    op,
    parallel_loop,
    rem,
    subtract,
    vector_type,
)
from relax_mlir.schedules.nest import Access, Kernel, Statement, collapse_axes
from relax_mlir.schedules.vectorize_body import (
    BodyCloner,
    NotVectorizableError,
    load,
    store,
)

__all__ = ["Rows"]

_CHUNK = 4096  # points of a flat loop that are worth one tile
_TILE_WORK = 16384  # points per thread below which forking costs more than it gains

# How lanes combine: identity, and the kind of vector.reduction.
_COMBINERS = {
    "arith.addf": (0.0, "add"),
    "arith.mulf": (1.0, "mul"),
    "arith.maximumf": (-float("inf"), "maximumf"),
    "arith.minimumf": (float("inf"), "minimumf"),
    "arith.addi": (0, "add"),
    "arith.muli": (1, "mul"),
    "arith.ori": (0, "or"),
}


@dataclass(frozen=True)
class Rows:
    """Row by row, vectorised; takes any kernel of linalg statements.

    Attributes:
        vector_bits: width of the machine's vectors.
    """

    vector_bits: int = 256

    def matches(self, kernel: Kernel) -> bool:
        """Whether every block became a linalg statement."""
        return not kernel.has_loops and bool(kernel.statements)

    def emit(self, kernel: Kernel) -> None:
        """Write the loops at the insertion point."""
        _RowEmitter(kernel, self.vector_bits).emit()


class _RowEmitter:
    def __init__(self, kernel: Kernel, vector_bits: int) -> None:
        if len(kernel.statements) == 1:
            kernel.statements[0] = collapse_axes(kernel.statements[0])
        self.kernel = kernel
        self.vector_bits = vector_bits
        self.depth = _shared_depth(kernel, vector_bits)
        self.scratch: dict[ir.Value, ir.Value] = {}

    def emit(self) -> None:
        first = self.kernel.statements[0]
        rows = list(first.extents[: self.depth])
        is_flat = all(isinstance(r, int) and r == 1 for r in rows)
        if is_flat and len(self.kernel.statements) == 1 and self._emit_chunks(first):
            return
        tiles: Extent = 1
        for extent in rows:
            tiles = multiply(tiles, extent)
        work = sum(_points(s.extents[self.depth :]) for s in self.kernel.statements)

        def tile(number: ir.Value) -> None:
            points = _unflatten(number, rows)
            self._alloc_scratch()
            for statement in self.kernel.statements:
                self._emit_statement(statement, points)

        parallel_loop(tiles, tile, grain=max(1, _TILE_WORK // max(1, work)))

    def _emit_chunks(self, statement: Statement) -> bool:
        """Cut the vector axis of a flat statement into tiles; False if it has none."""
        axis = _vector_axis(statement, self.vector_bits)
        if axis is None or statement.kinds[axis] != "S" or axis != self.depth:
            return False
        extent = statement.extents[axis]

        def tile(number: ir.Value) -> None:
            begin = multiply(number, _CHUNK)
            end = minimum(add(begin, _CHUNK), extent)
            self._alloc_scratch()
            rows: list[Extent] = [0] * self.depth
            self._emit_statement(statement, rows, {axis: (begin, end)})

        per_point = _points(statement.extents[axis + 1 :])
        grain = max(1, _TILE_WORK // (_CHUNK * max(1, per_point)))
        parallel_loop(ceil_div(extent, _CHUNK), tile, grain=grain)
        return True

    def _alloc_scratch(self) -> None:
        self.scratch = {}
        for buffer in self.kernel.temporaries:
            type_ = buffer.type
            sizes = iter(list(buffer.owner.operands))
            shape = [s if s >= 0 else next(sizes) for s in type_.shape]
            self.scratch[buffer] = alloc(shape[self.depth :], type_.element_type)

    def _place(
        self, access: Access, points: Sequence[Extent]
    ) -> tuple[ir.Value, list[ir.Value]]:
        where = access.indices(points)
        return self._relocate(access.buffer, where)

    def _relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Buffers between statements lie in the row's scratch."""
        if buffer in self.scratch:
            return self.scratch[buffer], where[self.depth :]
        return buffer, where

    def _emit_statement(
        self,
        statement: Statement,
        rows: Sequence[Extent],
        limits: "dict[int, tuple[Extent, Extent]] | None" = None,
    ) -> None:
        loops = _StatementEmitter(self, statement, rows, limits or {})
        axis = _vector_axis(statement, self.vector_bits)
        if axis is not None and axis >= self.depth:
            before = list(ir.InsertionPoint.current.block.operations)
            try:
                loops.emit(axis, _lanes(statement, self.vector_bits))
                return
            except NotVectorizableError:
                _erase_after(before)
        loops.emit(None, 1)


class _StatementEmitter:
    """The loops of one statement inside a row."""

    def __init__(
        self,
        row: _RowEmitter,
        statement: Statement,
        rows: Sequence[Extent],
        limits: dict[int, tuple[Extent, Extent]],
    ) -> None:
        self.row, self.statement = row, statement
        self.limits = limits
        self.points: list[Extent] = [*rows, *[0] * (len(statement.kinds) - len(rows))]
        self.inner = range(len(rows), len(statement.kinds))

    def _bounds(self, axis: int) -> tuple[Extent, Extent]:
        return self.limits.get(axis, (0, self.statement.extents[axis]))

    def emit(self, axis: int | None, lanes: int) -> None:
        self.axis, self.lanes = axis, lanes
        kinds = self.statement.kinds
        spatial = [a for a in self.inner if kinds[a] == "S" and a != axis]
        if axis is not None and kinds[axis] == "S":
            spatial.append(axis)
        self._spatial_loops(spatial)

    def _spatial_loops(self, axes: list[int]) -> None:
        if not axes:
            self._point(self.lanes, None)
            return
        axis, *rest = axes
        if axis == self.axis:
            self._vector_loop(axis)
            return
        begin, end = self._bounds(axis)

        def body(i: ir.Value) -> tuple[()]:
            self.points[axis] = i
            self._spatial_loops(rest)
            return ()

        for_loop(begin, end, 1, body)

    def _vector_loop(self, axis: int) -> None:
        """Full vectors, then the rest under a mask."""
        begin, end = self._bounds(axis)
        lanes = self.lanes
        count = subtract(end, begin)
        full = add(begin, subtract(count, rem(count, lanes)))

        def body(i: ir.Value) -> tuple[()]:
            self.points[axis] = i
            self._point(lanes, None)
            return ()

        for_loop(begin, full, lanes, body)
        rest = rem(count, lanes)
        if rest == 0:
            return

        def tail(_: ir.Value) -> tuple[()]:
            self.points[axis] = index(full)
            self._point(lanes, self._mask(rest))
            return ()

        for_loop(0, minimum(rest, 1), 1, tail)

    def _mask(self, count: Extent) -> ir.Value:
        return op(
            "vector.create_mask",
            vector_type(self.lanes, ir.IntegerType.get_signless(1)),
            index(count),
        )

    def _point(self, lanes: int, mask: ir.Value | None) -> None:
        """All reduce axes of one point, or of ``lanes`` neighbouring ones; then store."""
        statement = self.statement
        reduce_axes = [a for a in self.inner if statement.kinds[a] == "R"]
        across_lanes = self.axis in reduce_axes
        spatial_lanes = 1 if across_lanes else lanes
        if not reduce_axes:
            self._store(self._clone(lanes, mask, {}), spatial_lanes, mask)
            return
        carried = self._start(across_lanes, spatial_lanes, mask)
        order = [a for a in reduce_axes if a != self.axis]
        if across_lanes:
            order.append(self.axis)
        values = self._reduce_loops(order, carried, mask)
        if across_lanes:
            values = [self._across(v, n) for n, v in enumerate(values)]
        self._store(values, spatial_lanes, mask)

    def _arguments(self) -> list[ir.Value]:
        arguments: list[ir.Value] = list(self.statement.body.arguments)
        return arguments[len(self.statement.inputs) :]

    def _start(
        self, across_lanes: bool, lanes: int, mask: ir.Value | None
    ) -> list[ir.Value]:
        """What a reduction starts from: its constant, the identity per lane, or memory."""
        carried = []
        for n, access in enumerate(self.statement.outputs):
            element = access.buffer.type.element_type
            if across_lanes:
                carried.append(
                    broadcast(constant(self._combiner(n)[0], element), self.lanes)
                )
            elif self.statement.start is not None:
                value = op("arith.constant", element, value=self.statement.start)
                carried.append(broadcast(value, lanes) if lanes > 1 else value)
            else:
                buffer, where = self.row._place(access, self.points)
                carried.append(load(buffer, where, lanes, 1, mask))
        return carried

    def _combiner(self, output: int) -> tuple[float, str, str]:
        """Identity, vector.reduction kind and name of the operation that combines.

        Raises:
            NotVectorizableError: the order of the combination may matter.
        """
        argument = self._arguments()[output]
        last = self.statement.yielded[output].owner
        uses = list(argument.uses)
        if isinstance(last, ir.Block) or last.name not in _COMBINERS or len(uses) != 1:
            raise NotVectorizableError
        if argument not in list(last.operands):
            raise NotVectorizableError
        return (*_COMBINERS[last.name], last.name)

    def _reduce_loops(
        self, axes: list[int], carried: list[ir.Value], mask: ir.Value | None
    ) -> list[ir.Value]:
        if not axes:
            lanes = 1 if self.axis is None else self.lanes
            return self._update(lanes, mask, carried)
        axis, *rest = axes
        if axis == self.axis:
            return self._reduce_vector_loop(axis, carried)
        begin, end = self._bounds(axis)

        def body(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
            self.points[axis] = i
            return self._reduce_loops(rest, list(values), mask)

        return for_loop(begin, end, 1, body, carried)

    def _reduce_vector_loop(self, axis: int, carried: list[ir.Value]) -> list[ir.Value]:
        begin, end = self._bounds(axis)
        rest = rem(subtract(end, begin), self.lanes)
        full = subtract(end, rest)

        def body(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
            self.points[axis] = i
            return self._update(self.lanes, None, list(values))

        values = for_loop(begin, full, self.lanes, body, carried)
        if rest == 0:
            return values

        def tail(_: ir.Value, *before: ir.Value) -> list[ir.Value]:
            self.points[axis] = index(full)
            mask = self._mask(rest)
            after = self._update(self.lanes, mask, list(before))
            return [
                op("arith.select", b.type, mask, a, b)
                for a, b in zip(after, before, strict=True)
            ]

        return for_loop(0, minimum(rest, 1), 1, tail, values)

    def _update(
        self, lanes: int, mask: ir.Value | None, carried: list[ir.Value]
    ) -> list[ir.Value]:
        values = self._clone(
            lanes, mask, dict(zip(self._arguments(), carried, strict=True))
        )
        return [
            broadcast(v, lanes)
            if isinstance(c.type, ir.VectorType) and v.type != c.type
            else v
            for v, c in zip(values, carried, strict=True)
        ]

    def _across(self, value: ir.Value, output: int) -> ir.Value:
        """Combine the lanes, and what the reduction starts from."""
        _, kind, name = self._combiner(output)
        element = value.type.element_type
        attributes = {"kind": ir.Attribute.parse(f"#vector.kind<{kind}>")}
        if isinstance(element, ir.FloatType):
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc>")
        total = op("vector.reduction", element, value, **attributes)
        if self.statement.start is not None:
            start = op("arith.constant", element, value=self.statement.start)
        else:
            buffer, where = self.row._place(self.statement.outputs[output], self.points)
            start = op("memref.load", element, buffer, *where)
        return op(name, element, start, total)

    def _clone(
        self, lanes: int, mask: ir.Value | None, outputs: dict[ir.Value, ir.Value]
    ) -> list[ir.Value]:
        statement = self.statement
        axis = self.axis if lanes > 1 else None
        points = [index(p) for p in self.points]
        cloner = BodyCloner(
            statement.body, points, axis, lanes, mask, self.row._relocate
        )
        values = dict(outputs)
        for argument, access in zip(
            statement.body.arguments, statement.inputs, strict=False
        ):
            if next(iter(argument.uses), None) is not None:
                values[argument] = self._read(access, lanes, mask)
        if not outputs:
            for argument, access in zip(
                self._arguments(), statement.outputs, strict=True
            ):
                if next(iter(argument.uses), None) is not None:
                    values[argument] = self._read(access, lanes, mask)
        return cloner.run(values)

    def _read(self, access: Access, lanes: int, mask: ir.Value | None) -> ir.Value:
        stride = 0 if lanes == 1 else access.stride_of(self.axis)
        if stride is None:
            raise NotVectorizableError
        buffer, where = self.row._place(access, self.points)
        return load(buffer, where, lanes, stride, mask)

    def _store(self, values: list[ir.Value], lanes: int, mask: ir.Value | None) -> None:
        for value, access in zip(values, self.statement.outputs, strict=True):
            if lanes > 1 and access.stride_of(self.axis) != 1:
                raise NotVectorizableError
            buffer, where = self.row._place(access, self.points)
            store(value, buffer, where, lanes, mask)


def _points(extents: Sequence[Extent]) -> int:
    """How many points a domain has; 64 stands for a size known only at run time."""
    total = 1
    for extent in extents:
        total *= extent if isinstance(extent, int) else 64
    return total


def _unflatten(number: ir.Value, extents: Sequence[Extent]) -> list[Extent]:
    """The indices of tile ``number`` in a row-major grid."""
    points: list[Extent] = []
    for extent in reversed(extents[1:]):
        points.append(rem(number, extent))
        number = index(div(number, extent))
    return [number, *reversed(points)] if extents else []


def _shared_depth(kernel: Kernel, vector_bits: int) -> int:
    """How many leading axes all statements share, so that a tile is one point of them."""
    first = kernel.statements[0]
    depth = min(_leading_spatial(s, vector_bits) for s in kernel.statements)
    for s in kernel.statements:
        while depth and not all(
            _same(a, b)
            for a, b in zip(s.extents[:depth], first.extents[:depth], strict=True)
        ):
            depth -= 1
    for s in kernel.statements:
        for access in s.accesses:
            is_shared = access.buffer in kernel.temporaries or access in s.outputs
            while depth and is_shared and not _is_row(access, depth):
                depth -= 1
        if depth and _reads_temporary_in_body(s, kernel):
            return 0
    return depth


def _leading_spatial(statement: Statement, vector_bits: int) -> int:
    """Leading spatial axes, without the one that is to be vectorised."""
    axis = _vector_axis(statement, vector_bits)
    limit = len(statement.kinds.rstrip("R")) if axis is None else axis
    return min(limit, len(statement.kinds.rstrip("R")))


def _same(a: Extent, b: Extent) -> bool:
    return a == b


def _is_row(access: Access, depth: int) -> bool:
    return (
        all(
            access.forms[i].single_axis == i
            for i in range(min(depth, len(access.forms)))
        )
        and len(access.forms) >= depth
    )


def _reads_temporary_in_body(statement: Statement, kernel: Kernel) -> bool:
    return any(
        o.operation.name == "memref.load" and o.operands[0] in kernel.temporaries
        for o in statement.body.operations
    )


def _vector_axis(statement: Statement, vector_bits: int) -> int | None:
    """The axis along which vectors cost least; None if scalars do."""
    lanes = _lanes(statement, vector_bits)
    best, best_cost = None, float(lanes * len(statement.accesses))
    for axis in range(len(statement.kinds)):
        cost = _vector_cost(statement, axis, lanes)
        if cost is not None and cost <= best_cost:
            best, best_cost = axis, cost
    return best


def _lanes(statement: Statement, vector_bits: int) -> int:
    """How many points fit a vector, by the widest type that is read or written."""
    types = [a.buffer.type.element_type for a in statement.accesses]
    return vector_bits // max([32, *(t.width for t in types)])


def _vector_cost(statement: Statement, axis: int, lanes: int) -> float | None:
    """Rough cost of one vector of points along ``axis``, in plain loads.

    None where it cannot be: results must lie side by side, or be one per vector.
    """
    out = [a.stride_of(axis) for a in statement.outputs]
    if out != ([1] if statement.kinds[axis] == "S" else [0]) * len(out):
        return None
    cost = 0.1 if statement.kinds[axis] == "R" else 0.0  # lanes combine at the end
    for access in statement.accesses:
        cost += _STRIDE_COSTS.get(access.stride_of(axis), 0.9 * lanes)
    extent = statement.extents[axis]
    if isinstance(extent, int):
        cost *= -(-extent // lanes) * lanes / max(1, extent)
    return cost


_STRIDE_COSTS = {0: 0.3, 1: 1.0, 2: 3.0}


def _erase_after(before: Sequence[ir.OpView]) -> None:
    """Undo what was written to the current block since ``before`` was taken."""
    block = ir.InsertionPoint.current.block
    for operation in reversed(list(block.operations)[len(before) :]):
        operation.operation.erase()
