"""GemmWgmma: sums of products on Hopper's tensor cores, which read shared memory themselves.

One thread of a block brings slices of both operands to shared memory by the copy engine,
some turns ahead; warpgroups multiply them, each 64 rows of the tile. They tell each other by
barriers which slices are full, and which may be filled again. A block has one tile of the
result after another, so that slices of the next are on their way while one is written.

Source: NVIDIA, CUTLASS, "Efficient GEMM in CUDA": warp-specialized persistent kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis, groups
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    div,
    for_loop,
    minimum,
    multiply,
    op,
    product,
    rem,
    static,
    subtract,
    unflatten,
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
from relax_mlir.schedules.gpu.gemm_parts import PART
from relax_mlir.schedules.gpu.gemm_tile import Side
from relax_mlir.schedules.gpu.launch import (
    PROCESSORS,
    WARP,
    barrier,
    if_less,
    launch,
    meet_warp,
    uniform,
    wait_for_launch_before,
)
from relax_mlir.schedules.gpu.patches import (
    PATCH_COLUMNS,
    PATCH_ROWS,
    Patches,
    neighbours,
)
from relax_mlir.schedules.gpu.pipeline import Barriers, Turn
from relax_mlir.schedules.gpu.row_tiles import RowTile, row_tile
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.tensor_boxes import (
    ROW_BYTES,
    Boxes,
    boxes_of,
    window_axes,
)
from relax_mlir.schedules.gpu.wgmma import (
    ROWS,
    WARPGROUP,
    Matrix,
    Products,
    take_registers,
)
from relax_mlir.schedules.nest import Access, Kernel, point_count
from relax_mlir.schedules.rule import Refusal

__all__ = ["GemmWgmma"]

_BAND = 8  # rows of tiles that blocks walk through together, column by column
_FEWEST = 33  # rows, columns: fewer leave half of a tile empty
_HOPPER = 90
_TURNED_BITS = 16  # of numbers that instructions take across the sum too
_KINDS = {"f32": "tf32", "f8E4M3FN": "e4m3"}  # as instructions call types of factors
_SHARING_BLOCKS = 8  # that ask for the same columns ahead, at the most
_ASKED_SLICES = 16
_SHARING = 2  # warpgroups that multiply, which get the registers of one that copies
_FEW_REGISTERS, _MANY_REGISTERS = 40, 232  # of a thread then


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
    blocks: int = PROCESSORS

    @property
    def warpgroups(self) -> int:
        """That multiply."""
        return self.rows // ROWS

    @property
    def cut(self) -> Cut:
        threads = WARPGROUP * (1 + self.warpgroups)
        return Cut(self.rows, self.columns, self.depth, threads, self.parts)


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
        _Operands.of(plan, ROWS, ROWS, _sketch)
        return plan

    def configurations(self, plan: Plan) -> list[GemmWgmmaConfiguration]:
        """The largest tiles that give all processors work, then the others."""
        wide = ROW_BYTES * 8 // plan.rows_of.element.width
        return ranked(plan, [replace(c, depth=wide) for c in _CONFIGURATIONS])

    def write(self, plan: Plan) -> None:
        made = self.configuration or self.configurations(plan)[0]
        _GemmWgmmaKernel(plan, made).write()


class _GemmWgmmaKernel(GemmKernel):
    """The first warpgroup copies; each of the others multiplies 64 rows."""

    def __init__(self, plan: Plan, made: GemmWgmmaConfiguration) -> None:
        super().__init__(plan, made.cut, neighbours(plan, made.parts))
        self._made = made
        found = _Operands.of(plan, made.rows, made.columns)
        self._operands, self._row_tile = (found.rows, found.columns), found.row_tile
        self._summed = found.summed
        element = str(plan.rows_of.element)
        self._kind = _KINDS.get(element, element)
        self._products = Products(made.columns)

    @property
    def tiles(self) -> list[Extent]:
        *outer, across, _ = super().tiles
        return [*outer, across, self._row_tile.count]

    @property
    def _row_axes(self) -> Sequence[Axis]:
        return self._row_tile.axes

    def _write_tiles(self) -> None:
        """As many blocks as the device runs at once, each with some tiles."""
        maps = [operand.describe() for operand in self._operands]
        tiles = product([self.cut.parts, *self.tiles])
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
        patches = Patches.create(warps, self.plan.element)

        def start() -> None:
            for number in range(made.stages):
                ring.full.start(number, 1)
                ring.empty.start(number, made.warpgroups)
            op("nvvm.fence.mbarrier.init", None)

            self._ask_ahead(maps, walk)

        if_less(thread, 1, start)
        wait_for_launch_before()
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

    def _ask_ahead(self, maps: Sequence[ir.Value], walk: _Walk) -> None:
        """Ask for columns, which are weights more often than rows, if few need the same."""
        down = self._row_tile.count
        if not isinstance(down, int) or down > _SHARING_BLOCKS:
            return
        first = self._tile(walk.first)
        begin, turns = self._share(first)

        def step(k: ir.Value) -> tuple[()]:
            terms = multiply(add(begin, k), self._made.depth)
            point = {**first, **self._summed.points(terms)}
            self._operands[1].ask_ahead(maps[1], point)
            return ()

        for_loop(0, minimum(turns, _ASKED_SLICES), 1, step)

    def _take_registers(self, *, is_more: bool) -> None:
        """With three warpgroups, those of one that copies go to those that multiply."""
        if self._made.warpgroups == _SHARING:
            count = _MANY_REGISTERS if is_more else _FEW_REGISTERS
            take_registers(count, is_more=is_more)

    def _tile(self, number: ir.Value) -> dict[int, Extent]:
        """The first point of a tile, along all axes but those of the sum.

        Tiles are walked in bands of some rows, so that blocks that run at the same time
        read the same slices.
        """
        *outer, across, down = self.tiles
        in_all = [self.cut.parts, *outer, multiply(across, down)]
        part, *where, place = unflatten(number, in_all)
        points = {a.number: p for a, p in zip(self._outer, where, strict=True)}
        points[PART] = part
        in_band = multiply(across, _BAND)
        first = multiply(div(place, in_band), _BAND)
        inside = rem(place, in_band)
        height = minimum(subtract(down, first), _BAND)
        if isinstance(down, int) and down % _BAND == 0:
            height = _BAND
        row, column = add(first, rem(inside, height)), div(inside, height)
        points[self.plan.n[-1]] = multiply(column, self._made.columns)
        return {**points, **self._row_tile.first(row)}

    def _bring(self, maps: Sequence[ir.Value], walk: _Walk, ring: _Ring) -> None:
        """What the thread that copies does."""
        made = self._made
        bytes_ = sum(operand.copied_bytes for operand in self._operands)

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            first = self._tile(number)
            begin, turns = self._share(first)

            def step(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                turn = Turn(*carried)
                ring.empty.wait(turn.stage, turn.other_parity())
                ring.full.expect(turn.stage, bytes_)
                terms = multiply(add(begin, k), made.depth)
                point = {**first, **self._summed.points(terms)}
                for operand, map_, slices in zip(
                    self._operands, maps, ring.slices, strict=True
                ):
                    operand.copy(map_, point, slices, turn.stage, ring.full)
                return turn.following(made.stages).values

            return for_loop(0, turns, 1, step, carried)

        walk.write(tile, Turn.first().values)

    def _multiply(
        self,
        walk: _Walk,
        ring: _Ring,
        group: Extent,
        thread: Extent,
        patches: Patches,
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
            _, turns = self._share(self._tile(number))
            *values, sums = for_loop(0, turns, 1, step, [*carried, zeros])
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
        patches: Patches,
    ) -> None:
        """Write the sums of a thread, through the maps that follow.

        Warps exchange them by shared memory, so that each thread has neighbours.
        """
        first, column_axis = self._tile(number), self.plan.n[-1]
        warp, lane = div(thread, WARP), rem(thread, WARP)
        first_row = multiply(warp, PATCH_ROWS)
        per_patch = PATCH_ROWS * PATCH_COLUMNS // WARP  # sums of a thread
        for patch in range(self._made.columns // PATCH_COLUMNS):
            own = sums[patch * per_patch : (patch + 1) * per_patch]
            meet_warp()
            patches.write(warp, lane, own)
            meet_warp()
            begin = add(first[column_axis], patch * PATCH_COLUMNS)

            def write_rows(
                turn: ir.Value, *_: ir.Value, begin: Extent = begin
            ) -> list[ir.Value]:
                place, column, value = patches.read(warp, lane, turn, self._lanes)

                def write(row: Mapping[int, Extent]) -> None:
                    at = {**first, **row}
                    self._finish_vector(at, add(begin, column), value)

                self._row_tile.visit(add(first_row, place), first, write)
                return []

            for_loop(0, per_patch // self._lanes, 1, write_rows)


def _sketch(extents: Sequence[Extent]) -> Extent:
    """The points of some axes, without writing anything: one stands for what is not known."""
    unknown = [extent for extent in extents if not isinstance(extent, int)]
    return unknown[0] if unknown else product(extents)


@dataclass(frozen=True)
class _Operands:
    """Both operands of a contraction, as the copy engine reads them."""

    rows: Boxes
    columns: Boxes
    row_tile: RowTile
    summed: Side

    @staticmethod
    def of(
        plan: Plan,
        rows: int,
        columns: int,
        extent_of: Callable[[Sequence[Extent]], Extent] = product,
    ) -> _Operands:
        """In slices of so many rows and columns.

        Args:
            extent_of: how many points axes have that are walked as one.

        Raises:
            Refusal: it cannot.
        """
        extents = plan.anchor.extents
        apart = window_axes(plan.rows_of) | window_axes(plan.columns_of)

        def axes_of(numbers: Sequence[int], accesses: Sequence[Access]) -> list[Axis]:
            found = groups(numbers, extents, accesses, apart)
            return [Axis(g[-1], extent_of([extents[n] for n in g])) for g in found]

        down = axes_of(plan.m, accesses_by_row(plan))
        across = axes_of(plan.n, [plan.b])
        summed = axes_of(plan.k, [plan.a, plan.b])
        if len(across) > 1:
            raise Refusal("its columns are more than one axis")
        wide = ROW_BYTES * 8 // plan.rows_of.element.width
        *_, last = summed
        is_counted_on = len(summed) == 1 and last.number not in apart
        if static(last.extent) % wide and not is_counted_on:
            raise Refusal("a slice crosses the end of an axis of the sum")
        tile = row_tile(down, rows)
        axes = [*(Axis(n, extents[n]) for n in plan.outer), *down, *across, *summed]
        column_tile = {across[0].number: columns}
        found = [
            boxes_of(factor, axes, tile, last.number, places)
            for factor, tile, places in (
                (plan.rows_of, tile.taken, rows),
                (plan.columns_of, column_tile, columns),
            )
        ]
        for factor, boxes in zip((plan.rows_of, plan.columns_of), found, strict=True):
            if factor.element.width != _TURNED_BITS and not boxes.is_along_sum:
                raise Refusal(
                    f"a factor of {factor.element} does not lie along the sum"
                )
        return _Operands(*found, tile, Side(summed))


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
