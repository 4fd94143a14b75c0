"""GemmWgmma: sums of products on Hopper's tensor cores, which read shared memory themselves.

One thread of a block brings slices of both operands to shared memory by the copy engine,
some turns ahead; warpgroups multiply them, each 64 rows of the tile. They tell each other by
barriers which slices are full, and which may be filled again. A block has one tile of the
result after another, so that slices of the next are on their way while one is written.

Source: NVIDIA, CUTLASS, "Efficient GEMM in CUDA": warp-specialized persistent kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis, groups, merged
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    ceil_div,
    div,
    for_loop,
    index,
    minimum,
    multiply,
    op,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_kernel import (
    Cut,
    CutConfiguration,
    GemmKernel,
    accesses_by_row,
    check_factors,
    plan_gemm,
    ranked,
)
from relax_mlir.schedules.gpu.gemm_tile import Side
from relax_mlir.schedules.gpu.launch import (
    WARP,
    alloc_shared,
    barrier,
    if_less,
    launch,
    meet_warp,
    uniform,
)
from relax_mlir.schedules.gpu.pipeline import Barriers, Turn
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.tensor_boxes import ROW_BYTES, boxes_of
from relax_mlir.schedules.gpu.wgmma import (
    ROWS,
    WARPGROUP,
    Matrix,
    Products,
    take_registers,
)
from relax_mlir.schedules.nest import Kernel, point_count
from relax_mlir.schedules.rule import Refusal

__all__ = ["GemmWgmma"]

_PROCESSORS = 132  # of an H100 or H200
_BAND = 8  # rows of tiles that blocks walk through together, column by column
_FEWEST = 64  # rows, columns: fewer leave most of a tile empty
_HOPPER = 90
_TURNED_BITS = 16  # of numbers that instructions take across the sum too
_KINDS = {"f32": "tf32", "f8E4M3FN": "e4m3"}  # as instructions call types of factors
_LANES = 8  # neighbours of a row that a thread writes at once
_PATCH = 64  # columns that a warp writes at a time
_MANY_TILES = 4  # in a row, of which the last may be nearly empty
_FEW_REGISTERS, _MANY_REGISTERS = 40, 232  # of a thread that copies, that multiplies


@dataclass(frozen=True)
class GemmWgmmaConfiguration(CutConfiguration):
    """How a contraction is cut.

    Attributes:
        rows, columns: of a tile; depth: steps of the sum of a slice.
        stages: slices that are on their way, or multiplied.
        blocks: that run at once, each with some tiles.
    """

    rule = "GemmWgmma"
    rows: int
    columns: int
    depth: int
    stages: int
    blocks: int = _PROCESSORS

    @property
    def warpgroups(self) -> int:
        """That multiply."""
        return self.rows // ROWS

    @property
    def cut(self) -> Cut:
        return Cut(
            self.rows, self.columns, self.depth, WARPGROUP * (1 + self.warpgroups)
        )


_CONFIGURATIONS = (
    GemmWgmmaConfiguration(128, 256, 64, 4),
    GemmWgmmaConfiguration(128, 128, 64, 6),
    GemmWgmmaConfiguration(64, 128, 64, 6),
    GemmWgmmaConfiguration(64, 64, 64, 8),
)


@dataclass(frozen=True)
class GemmWgmma(GpuRule[Plan]):
    """Contractions of f16, bf16 or f8E4M3FN, summed in f32, on Hopper's tensor cores.

    Of f32 too, cut to 11 bits, if TF32 is allowed. Operands begin, and walk, in multiples of
    16 bytes.
    """

    configuration: GemmWgmmaConfiguration | None = None

    def plan(self, kernel: Kernel) -> Plan:
        """One contraction, and maps of its result."""
        if self.gpu.sm != _HOPPER:
            raise Refusal("the device is not of compute capability 9.0")
        plan = plan_gemm(kernel)
        wide = ["f32"] if self.gpu.tf32 else []
        check_factors(plan, ["f16", "bf16", "f8E4M3FN", *wide])
        extents = plan.anchor.extents
        for axes, what in ((plan.m, "rows"), (plan.n, "columns")):
            if point_count([extents[axis] for axis in axes]) < _FEWEST:
                raise Refusal(f"it has fewer than {_FEWEST} {what}")
        if not all(isinstance(extents[axis], int) for axis in plan.k):
            raise Refusal("the number of terms is not known")
        *further, rows = groups(plan.m, extents, accesses_by_row(plan))
        *more, columns = groups(plan.n, extents, [plan.b])
        if more:
            raise Refusal("its columns are more than one axis")
        if further and not _fills_tiles([extents[axis] for axis in rows]):
            raise Refusal("its rows are more than one axis, of which the last is short")
        summed = merged(plan.k, extents, [plan.a, plan.b])
        outer = [*plan.outer, *(axis for group in further for axis in group)]
        separate = [Axis(axis, extents[axis]) for axis in outer]
        for factor, side in ((plan.rows_of, rows), (plan.columns_of, columns)):
            last = Axis(side[-1], extents[side[-1]])
            boxes = boxes_of(factor, separate, last, summed, _FEWEST)
            if factor.element.width != _TURNED_BITS and not boxes.is_along_sum:
                raise Refusal(
                    f"a factor of {factor.element} does not lie along the sum"
                )
        return plan

    def configurations(self, plan: Plan) -> list[GemmWgmmaConfiguration]:
        """The largest tiles that give all processors work, then the others."""
        wide = ROW_BYTES * 8 // plan.rows_of.element.width
        return ranked(plan, [replace(c, depth=wide) for c in _CONFIGURATIONS])

    def write(self, plan: Plan) -> None:
        made = self.configuration or self.configurations(plan)[0]
        _GemmWgmmaKernel(plan, made).write()


def _fills_tiles(extents: Sequence[Extent]) -> bool:
    """Whether tiles that begin anew at each end of an axis are hardly ever half empty."""
    count = point_count(extents)
    is_known = all(isinstance(extent, int) for extent in extents)
    return is_known and (count % _FEWEST == 0 or count >= _MANY_TILES * _FEWEST)


class _GemmWgmmaKernel(GemmKernel):
    """The first warpgroup copies; each of the others multiplies 64 rows."""

    def __init__(self, plan: Plan, made: GemmWgmmaConfiguration) -> None:
        super().__init__(plan, made.cut, _LANES)
        self._made = made
        *further, last = self._rows.axes
        self._outer += further  # a box has one axis of rows
        self._rows = Side([last])
        sides = (
            (plan.rows_of, self._rows, made.rows),
            (plan.columns_of, self._columns, made.columns),
        )
        self._operands = [
            boxes_of(factor, self._outer, side.axes[0], self._summed.axes, size)
            for factor, side, size in sides
        ]
        element = str(plan.rows_of.element)
        self._kind = _KINDS.get(element, element)
        self._products = Products(made.columns)
        self._steps = ceil_div(self._summed.extent, made.depth)

    def write(self) -> None:
        """As many blocks as the device runs at once, each with some tiles."""
        maps = [operand.describe() for operand in self._operands]
        tiles = product(self.tiles)
        blocks = minimum(tiles, self._made.blocks)

        def thread(block: ir.Value, number: ir.Value) -> None:
            walk = _Walk(block, tiles, blocks)
            self._write_block(maps, walk, number)

        launch(blocks, self.cut.threads, thread)

    def _write_block(
        self, maps: Sequence[ir.Value], walk: _Walk, thread: ir.Value
    ) -> None:
        made = self._made
        ring = _Ring(
            [operand.alloc(made.stages) for operand in self._operands],
            Barriers.create(made.stages),
            Barriers.create(made.stages),
        )
        warps = made.warpgroups * WARPGROUP // WARP
        patches = _Patches.create(warps, self.plan.element)

        def start() -> None:
            for number in range(made.stages):
                ring.full.start(number, 1)
                ring.empty.start(number, made.warpgroups)
            op("nvvm.fence.mbarrier.init", None)

        if_less(thread, 1, start)
        barrier()
        group = uniform(div(thread, WARPGROUP))

        def bring() -> None:
            self._take_registers(is_more=False)
            if_less(thread, 1, lambda: self._bring(maps, walk, ring))

        def consume() -> None:
            self._take_registers(is_more=True)
            own = subtract(thread, WARPGROUP)
            self._multiply(walk, ring, subtract(group, 1), own, patches)

        if_less(group, 1, bring, consume)

    def _take_registers(self, *, is_more: bool) -> None:
        """With three warpgroups, those of one that copies go to those that multiply."""
        if self._made.warpgroups > 1:
            count = _MANY_REGISTERS if is_more else _FEW_REGISTERS
            take_registers(count, is_more=is_more)

    def _tile(self, number: ir.Value) -> tuple[dict[int, Extent], Extent, Extent]:
        """Where a tile is: along the axes of separate products, its first row and column.

        Tiles are walked in bands of some rows, so that blocks that run at the same time
        read the same slices.
        """
        *outer, across, down = self.tiles
        *where, place = unflatten(number, [*outer, multiply(across, down)])
        points = {a.number: p for a, p in zip(self._outer, where, strict=True)}
        in_band = multiply(across, _BAND)
        first = multiply(div(place, in_band), _BAND)
        inside = rem(place, in_band)
        height = minimum(subtract(down, first), _BAND)
        if isinstance(down, int) and down % _BAND == 0:
            height = _BAND
        row, column = add(first, rem(inside, height)), div(inside, height)
        made = self._made
        return points, multiply(row, made.rows), multiply(column, made.columns)

    def _bring(self, maps: Sequence[ir.Value], walk: _Walk, ring: _Ring) -> None:
        """What the thread that copies does."""
        made = self._made
        bytes_ = sum(operand.slice_bytes for operand in self._operands)

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            outer, *firsts = self._tile(number)

            def step(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                turn = Turn(*carried)
                ring.empty.wait(turn.stage, turn.other_parity())
                ring.full.expect(turn.stage, bytes_)
                at = {**outer, **self._summed.points(multiply(k, made.depth))}
                for operand, map_, first, slices in zip(
                    self._operands, maps, firsts, ring.slices, strict=True
                ):
                    point = {**at, operand.side: first}
                    operand.copy(map_, point, slices, turn.stage, ring.full)
                return turn.following(made.stages).values

            return for_loop(0, self._steps, 1, step, carried)

        walk.write(tile, Turn.first().values)

    def _multiply(
        self,
        walk: _Walk,
        ring: _Ring,
        group: Extent,
        thread: Extent,
        patches: _Patches,
    ) -> None:
        """What a warpgroup that multiplies does.

        Args:
            group: its number among them; thread: of the thread among theirs.
        """
        made, products = self._made, self._products
        rows, columns = (
            Matrix.at(slices, self._kind, made.depth, is_along_sum=operand.is_along_sum)
            for operand, slices in zip(self._operands, ring.slices, strict=True)
        )
        rows = rows.moved(multiply(group, ROWS * ROW_BYTES))
        lane = rem(thread, WARPGROUP)

        def release(turn: Turn) -> None:
            if_less(lane, 1, lambda: ring.empty.arrive(turn.stage))

        def step(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            *values, sums = carried
            turn = Turn(*values)
            ring.full.wait(turn.stage, turn.parity)
            down, across = (
                matrix.moved(multiply(turn.stage, operand.slice_bytes))
                for matrix, operand in zip((rows, columns), self._operands, strict=True)
            )
            products.begin()
            for number in range(made.depth // rows.steps):
                sums = products.add(down.after(number), across.after(number), sums)
            products.commit()
            # Those of the slice before are done.
            products.wait(1)
            if_less(0, k, lambda: release(turn.preceding(made.stages)))
            return [*turn.following(made.stages).values, sums]

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            zeros = products.zeros()
            *values, sums = for_loop(0, self._steps, 1, step, [*carried, zeros])
            products.wait(0)
            release(Turn(*values).preceding(made.stages))
            self._finish(number, products.numbers(sums), thread, patches)
            return values

        walk.write(tile, Turn.first().values)

    def _finish(
        self,
        number: ir.Value,
        sums: Sequence[ir.Value],
        thread: Extent,
        patches: _Patches,
    ) -> None:
        """Write the sums of a thread, through the maps that follow.

        Warps exchange them by shared memory, so that each thread has neighbours.
        """
        outer, first_row, first_column = self._tile(number)
        warp, lane = div(thread, WARP), rem(thread, WARP)
        first_row = add(first_row, multiply(warp, _WARP_ROWS))
        per_patch = _PATCH // 2  # sums of a thread
        for patch in range(self._made.columns // _PATCH):
            own = sums[patch * per_patch : (patch + 1) * per_patch]
            meet_warp()
            patches.write(warp, lane, own)
            meet_warp()
            begin = add(first_column, patch * _PATCH)

            def write_rows(
                turn: ir.Value, *_: ir.Value, begin: Extent = begin
            ) -> list[ir.Value]:
                place, column, value = patches.read(warp, lane, turn)
                row = add(first_row, place)

                def write() -> None:
                    at = {**outer, **self._rows.points(row)}
                    self._finish_vector(at, add(begin, column), value)

                if_less(row, self._rows.extent, write)
                return []

            for_loop(0, _WARP_ROWS * _PATCH // _LANES // WARP, 1, write_rows)


@dataclass(frozen=True)
class _Ring:
    """Slices of both operands, and which are full and which may be filled."""

    slices: Sequence[ir.Value]
    full: Barriers
    empty: Barriers


@dataclass(frozen=True)
class _Walk:
    """The tiles of a block: every so many, from one on."""

    first: ir.Value
    end: Extent
    step: Extent

    def write(
        self,
        body: Callable[..., Sequence[ir.Value]],
        carried: Sequence[ir.Value],
    ) -> None:
        """``body(tile, *carried)`` for each."""
        for_loop(self.first, self.end, self.step, body, carried)


_WARP_ROWS = 16  # of a product


@dataclass(frozen=True)
class _Patches:
    """Sums on their way from the threads that have them to those that write them.

    Each warp has 16 rows of 64 columns: ``[warp, row, half, piece, element]``, with pieces of
    four columns, the halves of eight, in places such that threads meet different banks.
    """

    memory: ir.Value

    @staticmethod
    def create(warps: int, element: ir.Type) -> _Patches:
        """Memory for some warps."""
        shape = [warps, _WARP_ROWS, 2, _PATCH // _LANES, _LANES // 2]
        return _Patches(alloc_shared(shape, element))

    def write(self, warp: Extent, lane: Extent, sums: Sequence[ir.Value]) -> None:
        """Write what a thread has: two neighbours of a row, and of the eighth row after."""
        row, quarter = div(lane, 4), rem(lane, 4)
        half, inner = div(quarter, 2), multiply(rem(quarter, 2), 2)
        pair = vector_type(2, self.memory.type.element_type)
        for eight in range(_PATCH // _LANES):
            piece = self._piece(row, half, eight)
            for lower in range(2):
                first = 4 * eight + 2 * lower
                value = op("vector.from_elements", pair, *sums[first : first + 2])
                where = warp, add(row, 8 * lower), half, piece, inner
                op("vector.store", None, value, self.memory, *map(index, where))

    def read(
        self, warp: Extent, lane: Extent, turn: Extent
    ) -> tuple[Extent, Extent, ir.Value]:
        """Eight neighbours: their row, their first column, and they."""
        per_row = _PATCH // _LANES
        row = add(multiply(turn, WARP // per_row), div(lane, per_row))
        eight = rem(lane, per_row)
        element = self.memory.type.element_type
        halves = []
        for half in range(2):
            where = warp, row, half, self._piece(row, half, eight), 0
            type_ = vector_type(_LANES // 2, element)
            halves.append(op("vector.load", type_, self.memory, *map(index, where)))
        order = ir.DenseI64ArrayAttr.get(list(range(_LANES)))
        both = op("vector.shuffle", vector_type(_LANES, element), *halves, mask=order)
        return row, multiply(eight, _LANES), both

    def _piece(self, row: Extent, half: Extent, eight: Extent) -> Extent:
        """Where in its row and half a piece is."""
        turned = _xor(rem(row, 4), multiply(half, 4))
        return _xor(eight, turned)


def _xor(lhs: Extent, rhs: Extent) -> Extent:
    return op("arith.xori", ir.IndexType.get(), index(lhs), index(rhs))
