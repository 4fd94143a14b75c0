"""GemmMmaSync: sums of products on the tensor cores, a tile for each warp.

In shared memory slices lie as they do in memory, along the sum or across it: fragments are
turned when they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    div,
    index,
    multiply,
    op,
    rem,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_block import GemmBlock
from relax_mlir.schedules.gpu.gemm_kernel import (
    Cut,
    CutConfiguration,
    check_factors,
    plan_gemm,
    ranked,
)
from relax_mlir.schedules.gpu.gemm_tile import Operand
from relax_mlir.schedules.gpu.launch import WARP
from relax_mlir.schedules.gpu.mma import (
    COLUMNS,
    ROWS,
    HalfFragments,
    Slice,
    Tf32Fragments,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel, point_count
from relax_mlir.schedules.rule import Refusal

__all__ = ["GemmMmaSync"]

_LANES = 2  # neighbours of a row that a thread has the sums of
_FEWEST = 8  # rows, columns, terms: fewer leave most of a fragment empty


@dataclass(frozen=True)
class GemmMmaConfiguration(CutConfiguration):
    """How a contraction is cut.

    Attributes:
        rows, columns: of a block's tile; depth: steps of the sum of a slice.
        warp_rows, warp_columns: of a warp's tile.
    """

    rule = "GemmMmaSync"
    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int

    @property
    def cut(self) -> Cut:
        warps = self.rows // self.warp_rows * (self.columns // self.warp_columns)
        threads = WARP * warps
        return Cut(self.rows, self.columns, self.depth, threads, self.parts)


_CONFIGURATIONS = (
    GemmMmaConfiguration(128, 128, 32, 64, 32),
    GemmMmaConfiguration(64, 64, 32, 32, 32),
    GemmMmaConfiguration(32, 64, 32, 16, 32),
)


@dataclass(frozen=True)
class GemmMmaSync(GpuRule[Plan]):
    """Contractions of f16 or of bf16, summed in f32, on tensor cores.

    Of f32 too, rounded to 11 bits, if TF32 is allowed.
    """

    configuration: GemmMmaConfiguration | None = None

    def plan(self, kernel: Kernel) -> Plan:
        """One contraction, and maps of its result."""
        plan = plan_gemm(kernel)
        check_factors(plan, ["f16", "bf16", *(["f32"] if self.gpu.tf32 else [])])
        extents = plan.anchor.extents
        for axes, what in ((plan.m, "rows"), (plan.n, "columns"), (plan.k, "terms")):
            if point_count([extents[axis] for axis in axes]) < _FEWEST:
                raise Refusal(f"it has few {what}")
        return plan

    def configurations(self, plan: Plan) -> list[GemmMmaConfiguration]:
        """The largest tiles that give all processors work, then the others."""
        # Slices of as many bytes, so that what is read ahead has as many registers.
        halves = plan.rows_of.element.width // 16
        known = [replace(c, depth=c.depth // halves) for c in _CONFIGURATIONS]
        return ranked(plan, known)

    def write(self, plan: Plan) -> None:
        _GemmMmaBlock(plan, self.configuration or self.configurations(plan)[0]).write()


class _GemmMmaBlock(GemmBlock):
    """Each warp has a tile of fragments."""

    copies = True

    def __init__(self, plan: Plan, made: GemmMmaConfiguration) -> None:
        super().__init__(plan, made.cut, _LANES)
        self._made = made
        element = plan.rows_of.element
        is_wide = isinstance(element, ir.F32Type)
        self._fragments = Tf32Fragments() if is_wide else HalfFragments(element)
        self._down = made.warp_rows // ROWS
        self._across = made.warp_columns // COLUMNS

    @property
    def element(self) -> ir.Type:
        return self.plan.rows_of.element

    def slice_shape(self, operand: Operand) -> list[int]:
        if operand.is_along_sum:
            return [operand.size, operand.depth + self._fragments.pad]
        return [operand.depth, operand.size + self._fragments.turned_pad]

    def place(
        self, operand: Operand, half: Extent, point: Extent, step: Extent
    ) -> list[ir.Value]:
        inner = (point, step) if operand.is_along_sum else (step, point)
        return [index(half), *map(index, inner)]

    def starts(self) -> list[ir.Value]:
        start = op("arith.constant", self.plan.element, value=self.plan.anchor.start)
        return [start] * (4 * self._down * self._across)

    def _place(self, thread: ir.Value) -> tuple[Extent, Extent, Extent]:
        """Where the warp's tile begins, and the thread's number in the warp."""
        warp, made = div(thread, WARP), self._made
        across = made.columns // made.warp_columns
        row = multiply(div(warp, across), made.warp_rows)
        return row, multiply(rem(warp, across), made.warp_columns), rem(thread, WARP)

    def multiply(
        self,
        operands: Sequence[Operand],
        slices: Sequence[ir.Value],
        half: Extent,
        sums: list[ir.Value],
        thread: ir.Value,
    ) -> list[ir.Value]:
        row, column, lane = self._place(thread)
        down, across = (
            Slice(memory, half, not operand.is_along_sum)
            for memory, operand in zip(slices, operands, strict=True)
        )
        of = self._fragments
        for k in range(0, self._made.depth, of.steps):
            rows = [
                of.rows(down, lane, add(row, n * ROWS), k) for n in range(self._down)
            ]
            columns = [
                fragment
                for n in range(0, self._across, 2)
                for fragment in of.columns(across, lane, add(column, n * COLUMNS), k)
            ]
            following: list[ir.Value] = []
            for r in rows:
                for c in columns:
                    place = len(following)
                    following += of.multiply(r, c, sums[place : place + 4])
            sums = following
        return sums

    def results(
        self, sums: Sequence[ir.Value], thread: ir.Value
    ) -> list[tuple[Extent, list[tuple[Extent, ir.Value]]]]:
        row, column, lane = self._place(thread)
        row = add(row, div(lane, 4))
        column = add(column, multiply(rem(lane, 4), _LANES))
        type_ = vector_type(_LANES, self.plan.element)
        found = []
        for y in range(self._down):
            for lower in range(2):
                vectors = []
                for x in range(self._across):
                    first = 4 * (y * self._across + x) + 2 * lower
                    pair = op("vector.from_elements", type_, *sums[first : first + 2])
                    vectors.append((add(column, x * COLUMNS), pair))
                found.append((add(row, y * ROWS + lower * 8), vectors))
        return found
