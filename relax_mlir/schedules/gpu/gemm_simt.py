"""GemmSimt: sums of products, each thread a tile of fused multiply-adds.

Source: V. Volkov and J. Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, SC 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    div,
    index,
    multiply,
    multiply_add,
    op,
    rem,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_block import GemmBlock
from relax_mlir.schedules.gpu.gemm_kernel import (
    Cut,
    CutConfiguration,
    plan_gemm,
    ranked,
)
from relax_mlir.schedules.gpu.gemm_tile import Operand
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel

__all__ = ["GemmSimt"]

_LANES = 4  # neighbours of a row that a thread computes
_PAD = 4  # elements behind a row of a slice, so that threads meet different banks


@dataclass(frozen=True)
class GemmSimtConfiguration(CutConfiguration):
    """How a contraction is cut.

    Attributes:
        rows, columns: of a block's tile; depth: steps of the sum of a slice.
        thread_rows, thread_columns: of a thread's tile.
    """

    rule = "GemmSimt"
    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def cut(self) -> Cut:
        across = self.columns // self.thread_columns
        threads = self.rows // self.thread_rows * across
        return Cut(self.rows, self.columns, self.depth, threads, self.parts)


_CONFIGURATIONS = (
    GemmSimtConfiguration(128, 128, 8, 8, 8),
    GemmSimtConfiguration(64, 64, 16, 4, 4),
    GemmSimtConfiguration(32, 32, 16, 4, 4),
)


@dataclass(frozen=True)
class GemmSimt(GpuRule[Plan]):
    """Contractions in f32, f64 or i32, on the processors that do all other arithmetic."""

    configuration: GemmSimtConfiguration | None = None

    def plan(self, kernel: Kernel) -> Plan:
        """One contraction, and maps of its result."""
        return plan_gemm(kernel)

    def configurations(self, plan: Plan) -> list[GemmSimtConfiguration]:
        """The largest tiles that give all processors work, then the others."""
        return ranked(plan, _CONFIGURATIONS)

    def write(self, plan: Plan) -> None:
        _GemmSimtBlock(plan, self.configuration or self.configurations(plan)[0]).write()


class _GemmSimtBlock(GemmBlock):
    """Each thread has rows and columns in groups of four.

    The groups are as far apart as the threads of the block allow, so that those of a warp
    read neighbours.
    """

    def __init__(self, plan: Plan, made: GemmSimtConfiguration) -> None:
        super().__init__(plan, made.cut, _LANES)
        self._made = made

    @property
    def element(self) -> ir.Type:
        return self.plan.element

    def slice_shape(self, operand: Operand) -> list[int]:
        return [operand.depth, operand.size + _PAD]

    def place(
        self, operand: Operand, half: Extent, point: Extent, step: Extent
    ) -> list[ir.Value]:
        return [index(half), index(step), index(point)]

    def put(
        self,
        operand: Operand,
        value: ir.Value,
        memory: ir.Value,
        half: Extent,
        point: Extent,
        step: Extent,
    ) -> None:
        if not (isinstance(value.type, ir.VectorType) and operand.is_along_sum):
            super().put(operand, value, memory, half, point, step)
            return
        for n in range(value.type.shape[0]):
            where = ir.DenseI64ArrayAttr.get([n])
            one = op("vector.extract", self.element, value, static_position=where)
            super().put(operand, one, memory, half, point, add(step, n))

    def starts(self) -> list[ir.Value]:
        start = op("arith.constant", self.element, value=self.plan.anchor.start)
        count = self._made.thread_rows * self._made.thread_columns // _LANES
        return [broadcast(start, _LANES)] * count

    def _place(self, thread: ir.Value) -> tuple[Extent, Extent]:
        """Where the thread is among the rows and columns of threads."""
        across = self._made.columns // self._made.thread_columns
        return div(thread, across), rem(thread, across)

    def _groups(self, place: Extent, size: int, own: int) -> list[Extent]:
        """Where in the tile a thread's groups of four begin."""
        groups = own // _LANES
        apart = size // groups
        return [add(multiply(place, _LANES), n * apart) for n in range(groups)]

    def multiply(
        self,
        operands: Sequence[Operand],
        slices: Sequence[ir.Value],
        half: Extent,
        sums: list[ir.Value],
        thread: ir.Value,
    ) -> list[ir.Value]:
        rows, columns = slices
        made, (y, x) = self._made, self._place(thread)
        type_ = vector_type(_LANES, self.element)

        def load(memory: ir.Value, k: int, place: Extent) -> ir.Value:
            return op("vector.load", type_, memory, index(half), index(k), index(place))

        for k in range(made.depth):
            factors = []
            for place in self._groups(y, made.rows, made.thread_rows):
                found = load(rows, k, place)
                for lane in range(_LANES):
                    where = ir.DenseI64ArrayAttr.get([lane])
                    factors.append(
                        op("vector.extract", self.element, found, static_position=where)
                    )
            across = [
                load(columns, k, place)
                for place in self._groups(x, made.columns, made.thread_columns)
            ]
            totals = iter(sums)
            sums = [
                multiply_add(broadcast(factor, _LANES), column, next(totals))
                for factor in factors
                for column in across
            ]
        return sums

    def results(
        self, sums: Sequence[ir.Value], thread: ir.Value
    ) -> list[tuple[Extent, list[tuple[Extent, ir.Value]]]]:
        made, (y, x) = self._made, self._place(thread)
        totals = iter(sums)
        columns = self._groups(x, made.columns, made.thread_columns)
        return [
            (add(group, lane), [(column, next(totals)) for column in columns])
            for group in self._groups(y, made.rows, made.thread_rows)
            for lane in range(_LANES)
        ]
