"""Contraction: sums of products, as register tiles of fused multiply-adds.

Matrix products, batched or not, and convolutions are one shape of program: a sum over
reduce axes of ``a * b``, where the rows of the result come from one operand and its
columns, which lie side by side in memory, from the other. A tile of ``rows x columns``
accumulators stays in registers over the whole sum; the columns' operand is first copied
into a panel where every step of the sum reads consecutive vectors. That copy is also what
makes a convolution a matrix product: the panel holds the windows of its pixels.

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM
TOMS 34(3), 2008.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir

from relax_mlir.indexing import Linear, buffer_sizes
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    ceil_div,
    constant,
    div,
    for_loop,
    if_else,
    index,
    multiply,
    op,
    parallel_loop,
    reinterpret,
    rem,
    subtract,
    vector_type,
)
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.vectorize_body import BodyCloner, load, store

__all__ = ["Contraction"]

# Rows x vectors of accumulators: with the vectors of one step and a broadcast they fill
# the registers (32 of 512 bits, 16 of 256).
_TILES = {512: ((8, 3), (14, 2), (6, 4)), 256: ((6, 2), (4, 3)), 128: ((8, 2), (6, 4))}
_PACK_ROWS = 4  # tiles of rows from which on copying the columns pays
_WORK = 1 << 18  # multiply-adds that are worth a thread's while


@dataclass
class _Plan:
    """How a kernel is a contraction.

    Attributes:
        anchor: the statement that sums; maps: what follows, element by element.
        a, b: accesses of the rows' and of the columns' operand.
        outer: axes of separate products; m, n, k: rows, columns, and what is summed.
        whole: whether the columns lie side by side in ``b`` too.
    """

    anchor: Statement
    maps: list[Statement]
    a: Access
    b: Access
    outer: list[int] = field(default_factory=list)
    m: list[int] = field(default_factory=list)
    n: list[int] = field(default_factory=list)
    k: list[int] = field(default_factory=list)
    whole: bool = True


@dataclass(frozen=True)
class Contraction:
    """Register tiles of multiply-adds over packed columns; f32 and f64.

    Attributes:
        vector_bits: width of the machine's vectors.
    """

    vector_bits: int = 256

    def matches(self, kernel: Kernel) -> bool:
        """Whether the kernel is one contraction, and maps of its result."""
        return _plan(kernel) is not None

    def emit(self, kernel: Kernel) -> None:
        """Write the loops at the insertion point."""
        _Emitter(_plan(kernel), self.vector_bits).emit()


def _plan(kernel: Kernel) -> _Plan | None:
    if kernel.has_loops or not kernel.statements:
        return None
    anchor, *maps = kernel.statements
    factors = _factors(anchor)
    if factors is None or anchor.start is None or len(anchor.outputs) != 1:
        return None
    plan = _classify(anchor, *factors) or _classify(anchor, *reversed(factors))
    if plan is None:
        return None
    plan.maps = maps
    return plan if _follow(plan, kernel) else None


def _factors(anchor: Statement) -> tuple[Access, Access] | None:
    """The two reads whose products are summed."""
    if not anchor.is_reduction:
        return None
    total = anchor.yielded[0].owner
    if isinstance(total, ir.Block) or total.name != "arith.addf":
        return None
    out = list(anchor.body.arguments)[-1]
    terms = [v for v in total.operands if v != out]
    if len(terms) != 1 or isinstance(terms[0].owner, ir.Block):
        return None
    product = terms[0].owner
    inputs = list(anchor.body.arguments)[: len(anchor.inputs)]
    if product.name != "arith.mulf" or not all(v in inputs for v in product.operands):
        return None
    if not isinstance(out.type, ir.F32Type | ir.F64Type):
        return None
    first, second = (anchor.inputs[inputs.index(v)] for v in product.operands)
    return first, second


def _classify(anchor: Statement, a: Access, b: Access) -> _Plan | None:
    """Sort the axes, if the columns come from ``b``."""
    out = anchor.outputs[0]
    plan = _Plan(anchor, [], a, b)
    in_a, in_b = _axes_of(a), _axes_of(b)
    spatial = [axis for form in out.forms for axis in _axes_by_stride(form)]
    if len(spatial) != len(set(spatial)) or len(spatial) != anchor.kinds.count("S"):
        return None
    if not spatial:
        return None
    plan.k = [i for i, kind in enumerate(anchor.kinds) if kind == "R"]
    last = spatial[-1]
    if last in in_a or last not in in_b or out.stride_of(last) != 1:
        return None
    plan.n = [last]
    for axis in reversed(spatial[:-1]):
        group = [axis, *plan.n]
        if axis in in_a or axis not in in_b or not _is_flat(out, group, anchor):
            break
        plan.n = group
    rest = [axis for axis in spatial if axis not in plan.n]
    plan.m = [axis for axis in rest if axis in in_a and axis not in in_b]
    plan.outer = [axis for axis in rest if axis not in plan.m]
    # Without rows every column is read once: a panel would cost more than it saves, as in
    # a depthwise convolution.
    if not plan.m or not _sums_flat(plan):
        return None
    plan.whole = _is_flat(b, plan.n, anchor)
    return plan


def _axes_by_stride(form: Linear) -> list[int]:
    """The axes of an index, the one that steps farthest first."""
    return sorted(form.coefficients, key=lambda axis: -form.coefficients[axis])


def _axes_of(access: Access) -> set[int]:
    return {axis for form in access.forms for axis in form.coefficients}


def _sums_flat(plan: _Plan) -> bool:
    """Whether one index can run through the whole sum in ``a``."""
    used = _axes_of(plan.a)
    if not all(axis in used for axis in plan.k):
        return False
    return len(plan.k) == 1 or _is_flat(plan.a, plan.k, plan.anchor)


def _is_flat(access: Access, group: Sequence[int], statement: Statement) -> bool:
    """Whether the axes of ``group`` are the last dimensions, whole and in order."""
    forms = access.forms[-len(group) :]
    sizes = buffer_sizes(access.buffer)[-len(group) :]
    if [f.single_axis for f in forms] != list(group):
        return False
    return all(
        size is not None and size == statement.extents[axis]
        for size, axis in list(zip(sizes, group, strict=True))[1:]
    )


def _follow(plan: _Plan, kernel: Kernel) -> bool:
    """Whether the maps run on the tile: they read it in place, and others flat or not."""
    produced = {plan.anchor.outputs[0].buffer: plan.anchor.outputs[0]}
    for statement in plan.maps:
        if statement.is_reduction or len(statement.outputs) != 1:
            return False
        axes = _axis_map(statement, produced)
        if axes is None or not all(
            _reads_flat(plan, statement, x, axes, produced) for x in statement.accesses
        ):
            return False
        if any(
            o.operation.name in ("memref.load", "scf.if", "linalg.index")
            for o in statement.body.operations
        ):
            return False
        produced[statement.outputs[0].buffer] = _renamed(statement.outputs[0], axes)
    written = [s.outputs[0].buffer for s in (plan.anchor, *plan.maps)]
    return (
        all(b in kernel.temporaries for b in written[:-1])
        and written[-1] not in kernel.temporaries
    )


def _axis_map(
    statement: Statement, produced: dict[ir.Value, Access]
) -> dict[int, Linear] | None:
    """What every axis of a map is in the anchor's axes, from how it reads the tile."""
    axes: dict[int, Linear] = {}
    for access in statement.inputs:
        if access.buffer not in produced:
            continue
        for ours, theirs in zip(
            access.forms, produced[access.buffer].forms, strict=True
        ):
            if ours.coefficients or theirs.coefficients:
                if ours.single_axis is None or theirs.constant:
                    return None
                if axes.setdefault(ours.single_axis, theirs) != theirs:
                    return None
    return axes if len(axes) == len(statement.kinds) else None


def _renamed(access: Access, axes: dict[int, Linear]) -> Access:
    """An access in the anchor's axes."""
    forms = []
    for form in access.forms:
        total = Linear({}, form.constant)
        for axis, factor in form.coefficients.items():
            total = total.plus(axes[axis], factor)
        forms.append(total)
    return Access(access.buffer, tuple(forms))


def _reads_flat(
    plan: _Plan,
    statement: Statement,
    access: Access,
    axes: dict[int, Linear],
    produced: dict[ir.Value, Access],
) -> bool:
    """Whether the columns of a tile are side by side in an operand, or all one element."""
    if access.buffer in produced:
        return True
    ours = _renamed(access, axes)
    used = _axes_of(ours)
    if not any(axis in used for axis in plan.n):
        return True
    return _is_flat(ours, plan.n, plan.anchor)


@dataclass(frozen=True)
class _Scattered:
    """A vector of columns that may not lie side by side.

    Attributes:
        offsets: of every lane; first: of lane 0, in elements.
        is_run: whether they are neighbours after all; None if they never are.
    """

    offsets: ir.Value
    first: ir.Value
    is_run: ir.Value | None


class _Emitter:
    def __init__(self, plan: _Plan, vector_bits: int) -> None:
        self.plan = plan
        self.element = plan.anchor.outputs[0].buffer.type.element_type
        self.lanes = vector_bits // self.element.width
        self.extents = plan.anchor.extents
        self.rows = _product([self.extents[i] for i in plan.m])
        self.columns = _product([self.extents[i] for i in plan.n])
        self.depth = _product([self.extents[i] for i in plan.k])
        self.mr, self.nv = self._choose_tile(_TILES[vector_bits])
        self.width = self.nv * self.lanes
        self.panel: ir.Value | None = None

    def _choose_tile(self, tiles: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The tile that computes the least that is thrown away."""
        if self.rows == 1:
            return 1, min(16, -(-self.columns // self.lanes)) if isinstance(
                self.columns, int
            ) else 4
        if not isinstance(self.columns, int):
            return tiles[0]

        def cost(tile: tuple[int, int]) -> float:
            mr, nv = tile
            width = nv * self.lanes
            padded = -(-self.columns // width) * width
            rows = self.rows if isinstance(self.rows, int) else 0
            used_rows = -(-rows // mr) * mr / rows if rows else 1.0
            # A small tile reads more per multiply-add.
            return padded * (1 + 0.25 * (used_rows - 1)) * (1 + 0.3 / mr + 0.1 / nv)

        mr, nv = min(tiles, key=cost)
        while nv > 1 and self.columns <= (nv - 1) * self.lanes:
            nv -= 1
        return (min(mr, self.rows) if isinstance(self.rows, int) else mr), nv

    def emit(self) -> None:
        plan = self.plan
        outer = [self.extents[i] for i in plan.outer]
        panels = ceil_div(self.columns, self.width)
        grid = [*outer, panels]
        tiles = _product(grid)
        work = _known(self.rows) * _known(self.depth) * self.width

        def tile(number: ir.Value) -> None:
            *products, panel = _unflatten(number, grid)
            self.points: list[Extent] = [0] * len(plan.anchor.kinds)
            for axis, point in zip(plan.outer, products, strict=True):
                self.points[axis] = point
            self.first = multiply(panel, self.width)
            self._emit_panel()

        parallel_loop(tiles, tile, grain=max(1, _WORK // max(1, work)))

    def _emit_panel(self) -> None:
        """One panel of columns against all rows."""
        self.masks = self._column_masks()
        is_tall = not isinstance(self.rows, int) or self.rows >= _PACK_ROWS * self.mr
        if not self.plan.whole or (is_tall and isinstance(self.rows, int)):
            self._pack()
        full = subtract(self.rows, rem(self.rows, self.mr))

        def rows(m: ir.Value) -> tuple[()]:
            self._emit_tile(m, self.mr)
            return ()

        for_loop(0, full, self.mr, rows)
        if isinstance(self.rows, int):
            if self.rows % self.mr:
                self._emit_tile(index(full), self.rows % self.mr)
            return

        def single(m: ir.Value) -> tuple[()]:
            self._emit_tile(m, 1)
            return ()

        for_loop(full, self.rows, 1, single)

    def _column_masks(self) -> list[ir.Value | None]:
        """Which columns of each vector exist; None where all surely do."""
        if isinstance(self.columns, int) and self.columns % self.width == 0:
            return [None] * self.nv
        type_ = vector_type(self.lanes, ir.IntegerType.get_signless(1))
        left = subtract(self.columns, self.first)
        return [
            op("vector.create_mask", type_, index(subtract(left, q * self.lanes)))
            for q in range(self.nv)
        ]

    # packing

    def _pack(self) -> None:
        """Copy the columns: step ``k`` of the sum reads ``panel[k, :]``."""
        self.panel = alloc([self.depth, self.width], self.element)
        if self.plan.whole:
            self._pack_nest(
                [], 0, lambda k: [self._read_column_vector(q) for q in range(self.nv)]
            )
            return
        flat = _flat_view(self.plan.b.buffer)
        vectors = [self._scattered(q) for q in range(self.nv)]
        self._pack_nest([], 0, lambda k: [self._gather(flat, v) for v in vectors])

    def _pack_nest(
        self, done: list[int], row: Extent, read: Callable[[Extent], list[ir.Value]]
    ) -> None:
        """Loop over the reduce axes; ``row`` counts the steps of the sum."""
        axes = self.plan.k[len(done) :]
        if not axes:
            for q, value in enumerate(read(row)):
                where = [index(row), index(q * self.lanes)]
                store(value, self.panel, where, self.lanes, None)
            return
        axis = axes[0]

        def body(i: ir.Value) -> tuple[()]:
            self.points[axis] = i
            inner = add(multiply(row, self.extents[axis]), i)
            self._pack_nest([*done, axis], inner, read)
            return ()

        for_loop(0, self.extents[axis], 1, body)

    def _place_columns(self, column: Extent) -> None:
        """Point at a column: the last axis counts through the whole group."""
        *leading, last = self.plan.n
        for axis in leading:
            self.points[axis] = 0
        self.points[last] = column

    def _read_column_vector(self, q: int) -> ir.Value:
        self._place_columns(add(self.first, q * self.lanes))
        where = self.plan.b.indices(self.points)
        return load(self.plan.b.buffer, where, self.lanes, 1, self.masks[q])

    def _scattered(self, q: int) -> "_Scattered":
        """Where the columns of vector ``q`` lie, when they are not side by side."""
        first = add(self.first, q * self.lanes)
        type_ = vector_type(self.lanes, ir.IndexType.get())
        columns = op(
            "arith.addi",
            type_,
            broadcast(index(first), self.lanes),
            op("vector.step", type_),
        )
        # Columns that do not exist read the last one.
        top = broadcast(index(subtract(self.columns, 1)), self.lanes)
        columns = op("arith.minui", type_, columns, top)
        offsets = self._offsets(columns)
        return _Scattered(
            offsets,
            op(
                "vector.extract",
                ir.IndexType.get(),
                offsets,
                static_position=ir.DenseI64ArrayAttr.get([0]),
            ),
            self._is_run(first),
        )

    def _offsets(self, columns: ir.Value) -> ir.Value:
        """How far columns lie from the first of all, in elements."""
        type_ = columns.type
        strides = _strides(self.plan.b.buffer)
        total = broadcast(index(0), self.lanes)
        for axis in reversed(self.plan.n):
            extent = broadcast(index(self.extents[axis]), self.lanes)
            point = op("arith.remui", type_, columns, extent)
            columns = op("arith.divui", type_, columns, extent)
            for form, stride in zip(self.plan.b.forms, strides, strict=True):
                factor = form.coefficients.get(axis, 0)
                if factor:
                    step = broadcast(index(multiply(stride, factor)), self.lanes)
                    total = op(
                        "arith.addi", type_, total, op("arith.muli", type_, point, step)
                    )
        return total

    def _is_run(self, first: Extent) -> ir.Value | None:
        """Whether a vector's columns are neighbours in memory after all: in one row."""
        last = self.plan.n[-1]
        if self.plan.b.stride_of(last) != 1:
            return None
        row = self.extents[last]
        i1 = ir.IntegerType.get_signless(1)
        at_most = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 7)  # unsigned <=
        ends = add(rem(index(first), row), self.lanes)
        fits = op("arith.cmpi", i1, index(ends), index(row), predicate=at_most)
        end = add(first, self.lanes)
        exists = op(
            "arith.cmpi", i1, index(end), index(self.columns), predicate=at_most
        )
        return op("arith.andi", i1, fits, exists)

    def _gather(self, flat: ir.Value, vector: "_Scattered") -> ir.Value:
        for axis in self.plan.n:
            self.points[axis] = 0
        base: Extent = 0
        strides = _strides(self.plan.b.buffer)
        for form, stride in zip(self.plan.b.forms, strides, strict=True):
            place: Extent = form.constant
            for axis, factor in form.coefficients.items():
                place = add(place, multiply(self.points[axis], factor))
            base = add(base, multiply(place, stride))
        type_ = vector_type(self.lanes, self.element)

        def gather() -> ir.Value:
            mask = broadcast(constant(1, ir.IntegerType.get_signless(1)), self.lanes)
            zero = broadcast(constant(0, self.element), self.lanes)
            return op(
                "vector.gather", type_, flat, index(base), vector.offsets, mask, zero
            )

        if vector.is_run is None:
            return gather()
        start = add(base, vector.first)
        return if_else(
            vector.is_run,
            type_,
            lambda: op("vector.load", type_, flat, index(start)),
            gather,
        )

    # one register tile

    def _emit_tile(self, m: ir.Value, rows: int) -> None:
        type_ = vector_type(self.lanes, self.element)
        start = op("arith.constant", self.element, value=self.plan.anchor.start)
        zero = broadcast(start, self.lanes)
        row_points = [self._row_points(add(m, i)) for i in range(rows)]
        accumulators = [zero] * (rows * self.nv)

        def step(k: ir.Value, *values: ir.Value) -> list[ir.Value]:
            columns = [self._columns_at(k, q) for q in range(self.nv)]
            following = list(values)
            for i, points in enumerate(row_points):
                factor = broadcast(self._row_element(points, k), self.lanes)
                for q in range(self.nv):
                    place = i * self.nv + q
                    following[place] = op(
                        "vector.fma", type_, factor, columns[q], values[place]
                    )
            return following

        sums = for_loop(0, self.depth, 1, step, accumulators)
        for i, points in enumerate(row_points):
            for q in range(self.nv):
                self._finish(sums[i * self.nv + q], points, q)

    def _row_points(self, m: Extent) -> dict[int, Extent]:
        points = _unflatten(index(m), [self.extents[i] for i in self.plan.m])
        return dict(zip(self.plan.m, points, strict=True)) if self.plan.m else {}

    def _row_element(self, row: dict[int, Extent], k: ir.Value) -> ir.Value:
        points = list(self.points)
        for axis, point in row.items():
            points[axis] = point
        *leading, last = self.plan.k
        for axis in leading:
            points[axis] = 0
        points[last] = k
        a = self.plan.a
        return op("memref.load", self.element, a.buffer, *a.indices(points))

    def _columns_at(self, k: ir.Value, q: int) -> ir.Value:
        if self.panel is not None:
            where = [k, index(q * self.lanes)]
            return load(self.panel, where, self.lanes, 1, None)
        *leading, last = self.plan.k
        rest = k
        for axis in reversed([*leading, last][1:]):
            self.points[axis] = rem(rest, self.extents[axis])
            rest = div(rest, self.extents[axis])
        self.points[self.plan.k[0]] = rest
        return self._read_column_vector(q)

    def _finish(self, value: ir.Value, row: dict[int, Extent], q: int) -> None:
        """Run the maps on one vector of results and store it."""
        plan = self.plan
        self._place_columns(add(self.first, q * self.lanes))
        points = list(self.points)
        for axis, point in row.items():
            points[axis] = point
        produced = {plan.anchor.outputs[0].buffer: (plan.anchor.outputs[0], value)}
        last = plan.anchor
        axes = {i: Linear({i: 1}) for i in range(len(plan.anchor.kinds))}
        for last in plan.maps:
            accesses = {b: a for b, (a, _) in produced.items()}
            axes = _axis_map(last, accesses)
            value = self._map(
                last, axes, points, {b: v for b, (_, v) in produced.items()}, q
            )
            produced[last.outputs[0].buffer] = (_renamed(last.outputs[0], axes), value)
        out = _renamed(last.outputs[0], axes)
        store(value, out.buffer, out.indices(points), self.lanes, self.masks[q])

    def _map(
        self,
        statement: Statement,
        axes: dict[int, Linear],
        points: Sequence[Extent],
        produced: dict[ir.Value, ir.Value],
        q: int,
    ) -> ir.Value:
        values: dict[ir.Value, ir.Value] = {}
        for argument, access in zip(
            statement.body.arguments, statement.inputs, strict=False
        ):
            if access.buffer in produced:
                values[argument] = produced[access.buffer]
                continue
            ours = _renamed(access, axes)
            is_row = any(axis in _axes_of(ours) for axis in self.plan.n)
            where = ours.indices(points)
            mask = self.masks[q] if is_row else None
            values[argument] = load(ours.buffer, where, self.lanes, int(is_row), mask)
        cloner = BodyCloner(statement.body, [], None, self.lanes)
        (result,) = cloner.run(values)
        return result


def _product(extents: Sequence[Extent]) -> Extent:
    total: Extent = 1
    for extent in extents:
        total = multiply(total, extent)
    return total


def _known(extent: Extent) -> int:
    """A size; 64 stands for one that is known only at run time."""
    return extent if isinstance(extent, int) else 64


def _unflatten(number: ir.Value, extents: Sequence[Extent]) -> list[Extent]:
    """The indices of a number in a row-major grid."""
    points: list[Extent] = []
    for extent in reversed(extents[1:]):
        points.append(rem(number, extent))
        number = div(number, extent)
    return [number, *reversed(points)] if extents else []


def _strides(buffer: ir.Value) -> list[Extent]:
    """Stride per dimension of a row-major buffer, in elements."""
    strides: list[Extent] = [1]
    for size in reversed(_sizes(buffer)[1:]):
        strides.append(multiply(strides[-1], size))
    return strides[::-1]


def _sizes(buffer: ir.Value) -> list[Extent]:
    known = buffer_sizes(buffer)
    return [
        size
        if size is not None
        else op("memref.dim", ir.IndexType.get(), buffer, index(i))
        for i, size in enumerate(known)
    ]


def _flat_view(buffer: ir.Value) -> ir.Value:
    """A row-major buffer as one dimension."""
    total = _product(_sizes(buffer))
    dynamic = ir.ShapedType.get_dynamic_size()
    size = total if isinstance(total, int) else dynamic
    type_ = ir.MemRefType.get([size], buffer.type.element_type)
    return reinterpret(buffer, type_, [total])
