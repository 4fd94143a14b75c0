"""Loop nests of single statements, vectorized along one axis."""

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import erase, has_uses
from relax_mlir.schedules.blocked_summation import block_lengths, blocked_loop
from relax_mlir.schedules.builder import (
    IndexLike,
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
from relax_mlir.schedules.combiner import Combiner, combiner_of
from relax_mlir.schedules.kernel_view import Access, Statement
from relax_mlir.schedules.vector_axis import lane_count, vector_axis
from relax_mlir.schedules.vectorize_body import (
    BodyVectorizer,
    NotVectorizableError,
    Relocate,
    load_vector,
    store_vector,
)

__all__ = ["StatementLoops", "combiners_of", "emit_statement"]


def emit_statement(
    statement: Statement,
    rows: Sequence[IndexLike],
    relocate: Relocate,
    vector_bits: int,
    limits: Mapping[int, tuple[IndexLike, IndexLike]] | None = None,
    *,
    vectors: int = 1,
) -> None:
    """Emit the loops over a statement's inner axes, vectorized if possible.

    Args:
        rows: the point along the outer axes.
        relocate, limits: as for :class:`StatementLoops`.
        vector_bits: width of a vector register.
        vectors: unroll factor of the vector axis, in vectors.
    """
    points = dict(enumerate(rows))
    loops = StatementLoops(statement, points, relocate, limits or {})
    axis = vector_axis(statement, vector_bits)
    if axis is not None and axis >= len(rows):
        before = list(own_operations(ir.InsertionPoint.current.block))
        try:
            loops.emit(axis, vectors * lane_count(statement, vector_bits))
            return
        except NotVectorizableError:
            _erase_after(before)
    loops.emit(None, 1)


def combiners_of(statement: Statement) -> list[Combiner] | None:
    """The combiners of a reduction's outputs; None if one is not reassociable."""
    arguments = list(statement.body.arguments)[len(statement.inputs) :]
    pairs = zip(arguments, statement.yielded, strict=True)
    candidates = [combiner_of(argument, value) for argument, value in pairs]
    combiners = [combiner for combiner in candidates if combiner is not None]
    return combiners if len(combiners) == len(candidates) else None


def _erase_after(before: Sequence[ir.OpView]) -> None:
    """Erase the operations of the current block that are not in ``before``."""
    block = ir.InsertionPoint.current.block
    for operation in reversed(list(own_operations(block))[len(before) :]):
        erase(operation)


class StatementLoops:
    """Emits the loops of one statement over its inner axes.

    Args:
        statement: the statement.
        points: the point along the outer axes, by axis.
        relocate: substitutes scratch for a buffer and its indices.
        limits: begin and end of axes that are iterated over partially.
    """

    def __init__(
        self,
        statement: Statement,
        points: Mapping[int, IndexLike],
        relocate: Relocate,
        limits: Mapping[int, tuple[IndexLike, IndexLike]],
    ) -> None:
        self.statement = statement
        self.relocate, self.limits = relocate, limits
        axes = range(len(statement.kinds))
        self.points: list[IndexLike] = [points.get(axis, 0) for axis in axes]
        self.inner = [axis for axis in axes if axis not in points]

    def _place(self, access: Access) -> tuple[ir.Value, list[ir.Value]]:
        """The buffer of an access, and the indices of the current point."""
        return self.relocate(access.buffer, access.indices(self.points))

    def _bounds(self, axis: int) -> tuple[IndexLike, IndexLike]:
        return self.limits.get(axis, (0, self.statement.extents[axis]))

    def emit(self, axis: int | None, lanes: int) -> None:
        """Emit all loops, with ``lanes`` points along ``axis`` per vector.

        Raises:
            NotVectorizableError: the body cannot be vectorized along the axis; partial
                output is not erased.
        """
        self.axis, self.lanes = axis, lanes
        kinds = self.statement.kinds
        spatial = [a for a in self.inner if kinds[a] == "S" and a != axis]
        if axis is not None and kinds[axis] == "S":
            spatial.append(axis)
        self._spatial_loops(spatial)

    def emit_point(self, axis: int | None, lanes: int) -> None:
        """Emit one vector of ``lanes`` results along ``axis``, starting at the point.

        The point has all parallel axes.

        Raises:
            NotVectorizableError: as :meth:`emit`.
        """
        self.axis, self.lanes = axis, lanes
        self._point(lanes, None)

    def emit_update(
        self, axis: int | None, lanes: int, carried: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Emit one step of a reduction; the point has all axes.

        Args:
            carried: accumulators of the outputs; vectors if ``lanes`` > 1.

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
        how: Sequence[Combiner],
    ) -> None:
        """Combine the totals of a reduction with its initial values, and store them.

        Args:
            axis, lanes: vector axis and length of the totals.
            how: combiners of the outputs.
        """
        self.axis, self.lanes = axis, lanes
        pairs = enumerate(zip(totals, how, strict=True))
        values = [
            self._with_start(total, n, combiner) for n, (total, combiner) in pairs
        ]
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
        """Loop over full vectors, and a masked tail."""
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

    def _mask(self, count: IndexLike) -> ir.Value:
        return op(
            "vector.create_mask",
            vector_type(self.lanes, ir.IntegerType.get_signless(1)),
            index(count),
        )

    def _point(self, lanes: int, mask: ir.Value | None) -> None:
        """Reduce and store one point, or one vector of ``lanes`` points."""
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
            values = [self._reduce_lanes(v, n) for n, v in enumerate(values)]
        self._store(values, spatial_lanes, mask)

    def _arguments(self) -> list[ir.Value]:
        arguments: list[ir.Value] = list(self.statement.body.arguments)
        return arguments[len(self.statement.inputs) :]

    def _start(
        self, across_lanes: bool, lanes: int, mask: ir.Value | None
    ) -> list[ir.Value]:
        """Initial accumulators: identities per lane, the constant, or from memory."""
        carried = []
        for n, access in enumerate(self.statement.outputs):
            element = access.buffer.type.element_type
            if across_lanes:
                identity = constant(self._combiner(n).identity, element)
                carried.append(broadcast(identity, self.lanes))
            elif self.statement.start is not None:
                value = op("arith.constant", element, value=self.statement.start)
                carried.append(broadcast(value, lanes) if lanes > 1 else value)
            else:
                buffer, indices = self._place(access)
                carried.append(load_vector(buffer, indices, lanes, 1, mask))
        return carried

    def _combiner(self, output: int) -> Combiner:
        """The combiner of an output.

        Raises:
            NotVectorizableError: the reduction is not reassociable.
        """
        yielded = self.statement.yielded[output]
        combiner = combiner_of(self._arguments()[output], yielded)
        if combiner is None:
            raise NotVectorizableError
        return combiner

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

    def _block_lengths(
        self, extent: IndexLike, inner: Sequence[int]
    ) -> tuple[int, ...]:
        """Iterations per block of a reduction loop, if all outputs are float sums.

        Args:
            extent: trip count of the loop; inner: axes of the loops inside.
        """
        if not all(map(self._is_float_sum, range(len(self.statement.outputs)))):
            return ()
        terms = product([self._iterations(axis) for axis in inner])
        return block_lengths(extent, terms)

    def _iterations(self, axis: int) -> IndexLike:
        extent = subtract(*reversed(self._bounds(axis)))
        return div(extent, self.lanes) if axis == self.axis else extent

    def _is_float_sum(self, output: int) -> bool:
        """Whether an output is a sum of floats."""
        value = self.statement.yielded[output]
        combiner = combiner_of(self._arguments()[output], value)
        return combiner is not None and combiner.name == "arith.addf"

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

    def _reduce_lanes(self, value: ir.Value, output: int) -> ir.Value:
        """Horizontal reduction of an accumulator, combined with the initial value."""
        combiner = self._combiner(output)
        return self._with_start(combiner.lanes_of(value), output, combiner)

    def _with_start(self, total: ir.Value, output: int, combiner: Combiner) -> ir.Value:
        """Combine a total with the initial value of the reduction."""
        if self.statement.start is None:
            buffer, indices = self._place(self.statement.outputs[output])
            lanes = self.lanes if isinstance(total.type, ir.VectorType) else 1
            return combiner.combine(load_vector(buffer, indices, lanes, 1, None), total)
        element = element_of(total.type)
        start = op("arith.constant", element, value=self.statement.start)
        is_vector = isinstance(total.type, ir.VectorType)
        if is_vector:
            start = broadcast(start, self.lanes)
        return combiner.combine(start, total)

    def _clone(
        self, lanes: int, mask: ir.Value | None, outputs: dict[ir.Value, ir.Value]
    ) -> list[ir.Value]:
        statement = self.statement
        axis = self.axis if lanes > 1 else None
        points = [index(p) for p in self.points]
        cloner = BodyVectorizer(
            statement.body, points, axis, lanes, mask, self.relocate
        )
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
        buffer, indices = self._place(access)
        return load_vector(buffer, indices, lanes, stride, mask)

    def _store(self, values: list[ir.Value], lanes: int, mask: ir.Value | None) -> None:
        for value, access in zip(values, self.statement.outputs, strict=True):
            if lanes > 1 and access.stride_of(self.axis) != 1:
                raise NotVectorizableError
            buffer, indices = self._place(access)
            store_vector(value, buffer, indices, lanes, mask)
