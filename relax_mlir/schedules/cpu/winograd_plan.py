"""Kernels that ``tir-use-winograd`` has marked, and their operands."""

import math
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.dialects.tir.marks import WINOGRAD
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.cpu.contraction_tile import (
    Rows,
    tile_of_width,
    time_per_product,
)
from relax_mlir.schedules.emit import static
from relax_mlir.schedules.epilogue import Map, maps_after
from relax_mlir.schedules.nest import Kernel, Statement
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import Refusal, check_statements
from relax_mlir.schedules.winograd import KERNEL, LIMITS, READ, WRITTEN

__all__ = ["WinogradConfiguration", "WinogradPlan", "plan_winograd"]


_POINTS = READ * READ
_CACHE_BYTES = 600 << 10  # of the second-level cache, for scratch memory
_BYTES_A_CYCLE = 8  # from the third cache
_PRODUCTS_A_CYCLE = 32


@dataclass(frozen=True)
class WinogradConfiguration(Configuration):
    """How a convolution by tiles is written.

    Attributes:
        rows, columns: tiles of a block, down and across.
        panels: of output channels that are summed before their results are written.
    """

    rule = "Winograd"
    rows: int
    columns: int
    panels: int


@dataclass(frozen=True)
class WinogradPlan:
    """A convolution by tiles.

    Attributes:
        data: what is read, padded or not.
        kernel: the buffer of the kernel: [KERNEL, KERNEL, panels, channels, width].
        transformed: that of the kernel at the points: [READ, READ, panels, channels, width].
        limits: that of the inputs' limits; see ``schedules/winograd.py``.
        channels: input channels that are summed; the data may have more.
        width: output channels of a panel of the kernel.
        anchor: the direct convolution; maps: what follows.
        axes: of the anchor: image, row, column, output channel.
    """

    data: Padding
    kernel: ir.Value
    transformed: ir.Value
    limits: ir.Value
    channels: int
    width: int
    anchor: Statement
    maps: tuple[Map, ...]
    axes: tuple[int, int, int, int]

    @property
    def result(self) -> list[int]:
        """Images, rows, columns, channels."""
        return [static(self.anchor.extents[axis]) for axis in self.axes]

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles down and across."""
        _, rows, columns, _ = self.result
        return -(-rows // WRITTEN), -(-columns // WRITTEN)

    @property
    def panels(self) -> int:
        """Panels of output channels."""
        return -(-self.result[-1] // self.width)

    def configurations(self, lanes: int) -> list[WinogradConfiguration]:
        """Those that cut the image into equal blocks, the fastest by the model first."""
        down, across = self.tiles
        choices = [
            WinogradConfiguration(rows, columns, at_once)
            for rows in _divisors(down)
            for columns in _divisors(across)
            for at_once in (1, self.panels)
            if rows == 1 or columns == across
        ]
        return sorted(choices, key=lambda made: self._cycles(made, lanes))

    def _cycles(self, made: WinogradConfiguration, lanes: int) -> float:
        """About how long it takes in blocks of so many tiles, and panels, at once."""
        *_, out = self.result
        tiles, at_once = made.rows * made.columns, made.panels
        values = 4 * _POINTS * tiles * self.channels
        products = 4 * _POINTS * tiles * at_once * self.width
        passing = weights = 4 * _POINTS * self.channels * out
        if values + products > _CACHE_BYTES:
            turns = -(-self.panels // at_once)
            passing += values * (1 + turns) + 2 * products * turns
        elif values + products + weights <= _CACHE_BYTES * 3 // 2:
            passing //= 4
        vectors = self.width // lanes
        tile = tile_of_width(Rows(tiles), vectors, 32 * lanes)
        work = _POINTS * tiles * self.channels * out / _PRODUCTS_A_CYCLE
        work *= time_per_product(tile, Rows(tiles), vectors)
        blocks = math.prod(self.tiles) // tiles
        return (passing / _BYTES_A_CYCLE + work) * blocks


def plan_winograd(kernel: Kernel) -> WinogradPlan:
    """The plan of a kernel.

    Raises:
        Refusal: ``tir-use-winograd`` has not marked it, its operands do not fit that mark,
            or what follows is not elementwise.
    """
    if WINOGRAD not in kernel.function.attributes:
        raise Refusal("it is no convolution that `tir-use-winograd` has marked")
    check_statements(kernel)
    padding, statements = split_padding(kernel)
    anchor, *rest = statements
    axes = [form.single_axis for form in anchor.outputs[0].forms]
    image, row, column, out = (static(axis) for axis in axes)
    maps = maps_after(anchor, (out,), rest, kernel)
    arguments = list(kernel.function.arguments)
    _, *numbers = kernel.function.attributes[WINOGRAD]
    transformed, limits = (arguments[number] for number in numbers)
    by_rank = {ir.MemRefType(a.buffer.type).rank: a.buffer for a in anchor.inputs}
    if by_rank.keys() != {4, 5}:
        raise Refusal("it does not read an image and a kernel in panels")
    data, weights = by_rank[4], by_rank[5]
    _, _, *panel = ir.MemRefType(weights.type).shape
    expected = (
        (weights, [KERNEL, KERNEL, *panel]),
        (transformed, [READ, READ, *panel]),
        (limits, [LIMITS]),
    )
    if any(list(ir.MemRefType(b.type).shape) != shape for b, shape in expected):
        raise Refusal("its kernels and limits do not have the shapes of Winograd's")
    if padding is None:
        zero = ir.FloatAttr.get(ir.F32Type.get(), 0.0)
        padding = Padding(data, data, [0] * 4, zero)
    _, channels, width = panel
    axes = image, row, column, out
    plan = WinogradPlan(
        padding, weights, transformed, limits, channels, width, anchor, maps, axes
    )
    return replace(plan, data=replace(padding, read=_read(plan)))


def _read(plan: WinogradPlan) -> list[int]:
    """Sizes of the part of the data that results depend on: it may be that of a slice."""
    reach = [0, KERNEL - 1, KERNEL - 1, 0]
    images, rows, columns, _ = plan.result
    results = (images, rows, columns, plan.channels)
    dimensions = zip(results, reach, plan.data.before, plan.data.sizes, strict=True)
    return [min(size, n + more - before) for n, more, before, size in dimensions]


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
