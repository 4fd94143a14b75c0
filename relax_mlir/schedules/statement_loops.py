"""The loops of one statement: vectors along one axis, scalars along the others."""

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.rewriting import erase, has_uses
from relax_mlir.schedules.blocked_sums import block_lengths, blocked_loop
from relax_mlir.schedules.combination import Combination, combination
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    constant,
    div,
    for_loop,
    index,
    minimum,
    op,
    product,
    rem,
    subtract,
    vector_type,
)
from relax_mlir.schedules.nest import Access, Statement
from relax_mlir.schedules.vector_axis import lanes_of, vector_axis
from relax_mlir.schedules.vectorize_body import (
    BodyCloner,
    NotVectorizableError,
    Relocate,
    load,
    store,
)
from relax_mlir.traversal import own_operations

__all__ = ["StatementLoops", "combinations_of", "emit_statement"]


def emit_statement(
    statement: Statement,
    rows: Sequence[Extent],
    relocate: Relocate,
    vector_bits: int,
    limits: Mapping[int, tuple[Extent, Extent]] | None = None,
    *,
    vectors: int = 1,
) -> None:
    """Write a statement's inner axes at the insertion point, in vectors if it can be.

    Args:
        rows: the point of the outer axes.
        relocate, limits: as :class:`StatementLoops` takes them.
        vector_bits: width of the machine's vectors.
        vectors: how many of them are computed at once.
    """
    points = dict(enumerate(rows))
    loops = StatementLoops(statement, points, relocate, limits or {})
    axis = vector_axis(statement, vector_bits)
    if axis is not None and axis >= len(rows):
        before = list(own_operations(ir.InsertionPoint.current.block))
        try:
            loops.emit(axis, vectors * lanes_of(statement, vector_bits))
            return
        except NotVectorizableError:
            _erase_after(before)
    loops.emit(None, 1)


def combinations_of(statement: Statement) -> list[Combination] | None:
    """How the terms of each sum combine; None where the order may matter."""
    arguments = list(statement.body.arguments)[len(statement.inputs) :]
    pairs = zip(arguments, statement.yielded, strict=True)
    found = [combination(argument, value) for argument, value in pairs]
    ways = [way for way in found if way is not None]
    return ways if len(ways) == len(found) else None


def _erase_after(before: Sequence[ir.OpView]) -> None:
    """Undo what was written to the current block since ``before`` was taken."""
    block = ir.InsertionPoint.current.block
    for operation in reversed(list(own_operations(block))[len(before) :]):
        erase(operation)


class StatementLoops:
    """The loops of one statement over its inner axes.

    Args:
        statement: what to write.
        points: where it is along the outer axes, which are given.
        relocate: replaces a buffer and the indices in it by what stands in for them.
        limits: begin and end of axes that are not walked whole.
    """

    def __init__(
        self,
        statement: Statement,
        points: Mapping[int, Extent],
        relocate: Relocate,
        limits: Mapping[int, tuple[Extent, Extent]],
    ) -> None:
        self.statement = statement
        self.relocate, self.limits = relocate, limits
        axes = range(len(statement.kinds))
        self.points: list[Extent] = [points.get(axis, 0) for axis in axes]
        self.inner = [axis for axis in axes if axis not in points]

    def _place(self, access: Access) -> tuple[ir.Value, list[ir.Value]]:
        """The buffer of an access and where in it the point lies."""
        return self.relocate(access.buffer, access.indices(self.points))

    def _bounds(self, axis: int) -> tuple[Extent, Extent]:
        return self.limits.get(axis, (0, self.statement.extents[axis]))

    def emit(self, axis: int | None, lanes: int) -> None:
        """Write them at the insertion point, with ``lanes`` points along ``axis`` at once.

        Raises:
            NotVectorizableError: the lanes differ in more than their place; what was
                written until then stays.
        """
        self.axis, self.lanes = axis, lanes
        kinds = self.statement.kinds
        spatial = [a for a in self.inner if kinds[a] == "S" and a != axis]
        if axis is not None and kinds[axis] == "S":
            spatial.append(axis)
        self._spatial_loops(spatial)

    def emit_point(self, axis: int | None, lanes: int) -> None:
        """Write ``lanes`` neighbours along ``axis``, from the point on.

        All spatial axes are given.

        Raises:
            NotVectorizableError: as :meth:`emit`.
        """
        self.axis, self.lanes = axis, lanes
        self._point(lanes, None)

    def emit_update(
        self, axis: int | None, lanes: int, carried: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """One step of a reduction; all axes are given.

        Args:
            carried: of each output, what it comes to before; in vectors for several lanes.

        Raises:
            NotVectorizableError: as :meth:`emit`.
        """
        self.axis, self.lanes = axis, lanes
        return self._update(lanes, None, list(carried))

    def emit_total(
        self,
        axis: int | None,
        lanes: int,
        totals: Sequence[ir.Value],
        how: Sequence[Combination],
    ) -> None:
        """Store what all steps of a reduction come to, with what it starts from.

        Args:
            axis, lanes: neighbouring results that the totals are of, as vectors.
        """
        self.axis, self.lanes = axis, lanes
        pairs = enumerate(zip(totals, how, strict=True))
        values = [self._from_start(total, n, way) for n, (total, way) in pairs]
        self._store(values, lanes, None)

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
                identity = constant(self._combination(n).identity, element)
                carried.append(broadcast(identity, self.lanes))
            elif self.statement.start is not None:
                value = op("arith.constant", element, value=self.statement.start)
                carried.append(broadcast(value, lanes) if lanes > 1 else value)
            else:
                buffer, where = self._place(access)
                carried.append(load(buffer, where, lanes, 1, mask))
        return carried

    def _combination(self, output: int) -> Combination:
        """How the lanes of an output combine.

        Raises:
            NotVectorizableError: the order may matter.
        """
        found = combination(self._arguments()[output], self.statement.yielded[output])
        if found is None:
            raise NotVectorizableError
        return found

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

        lengths = self._block_lengths(subtract(end, begin), rest)
        return blocked_loop(begin, end, 1, body, carried, lengths)

    def _block_lengths(self, extent: Extent, inner: Sequence[int]) -> tuple[int, ...]:
        """Iterations of the blocks in which a loop over a reduce axis sums.

        Args:
            extent: its iterations; inner: the axes of the loops in it.
        """
        ways = [self._sum(n) for n in range(len(self.statement.outputs))]
        if not all(ways):
            return ()
        terms = product([self._iterations(axis) for axis in inner])
        return block_lengths(extent, terms)

    def _iterations(self, axis: int) -> Extent:
        extent = subtract(*reversed(self._bounds(axis)))
        return div(extent, self.lanes) if axis == self.axis else extent

    def _sum(self, output: int) -> bool:
        """Whether an output is a sum that is rounded."""
        value = self.statement.yielded[output]
        found = combination(self._arguments()[output], value)
        return found is not None and found.name == "arith.addf"

    def _reduce_vector_loop(self, axis: int, carried: list[ir.Value]) -> list[ir.Value]:
        begin, end = self._bounds(axis)
        rest = rem(subtract(end, begin), self.lanes)
        full = subtract(end, rest)

        def body(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
            self.points[axis] = i
            return self._update(self.lanes, None, list(values))

        lengths = self._block_lengths(div(subtract(full, begin), self.lanes), [])
        values = blocked_loop(begin, full, self.lanes, body, carried, lengths)
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
        how = self._combination(output)
        return self._from_start(how.lanes_of(value), output, how)

    def _from_start(self, total: ir.Value, output: int, how: Combination) -> ir.Value:
        """A total, and what the reduction starts from."""
        if self.statement.start is None:
            buffer, where = self._place(self.statement.outputs[output])
            lanes = self.lanes if isinstance(total.type, ir.VectorType) else 1
            return how.of_two(load(buffer, where, lanes, 1, None), total)
        element = element_of(total.type)
        start = op("arith.constant", element, value=self.statement.start)
        is_vector = isinstance(total.type, ir.VectorType)
        return how.of_two(broadcast(start, self.lanes) if is_vector else start, total)

    def _clone(
        self, lanes: int, mask: ir.Value | None, outputs: dict[ir.Value, ir.Value]
    ) -> list[ir.Value]:
        statement = self.statement
        axis = self.axis if lanes > 1 else None
        points = [index(p) for p in self.points]
        cloner = BodyCloner(statement.body, points, axis, lanes, mask, self.relocate)
        values = dict(outputs)
        for argument, access in zip(
            statement.body.arguments, statement.inputs, strict=False
        ):
            if has_uses(argument):
                values[argument] = self._read(access, lanes, mask)
        if not outputs:
            for argument, access in zip(
                self._arguments(), statement.outputs, strict=True
            ):
                if has_uses(argument):
                    values[argument] = self._read(access, lanes, mask)
        return cloner.run(values)

    def _read(self, access: Access, lanes: int, mask: ir.Value | None) -> ir.Value:
        stride = 0 if lanes == 1 else access.stride_of(self.axis)
        if stride is None:
            raise NotVectorizableError
        buffer, where = self._place(access)
        return load(buffer, where, lanes, stride, mask)

    def _store(self, values: list[ir.Value], lanes: int, mask: ir.Value | None) -> None:
        for value, access in zip(values, self.statement.outputs, strict=True):
            if lanes > 1 and access.stride_of(self.axis) != 1:
                raise NotVectorizableError
            buffer, where = self._place(access)
            store(value, buffer, where, lanes, mask)
