"""Matching of convolutions that ``tir-use-winograd`` has marked."""

import math
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.dialects.tir.attribute_names import WINOGRAD
from relax_mlir.schedules.builder import static_size
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.cpu.gemm_tile import GemmRows, cost_per_fma, tile_of_width
from relax_mlir.schedules.epilogue import ElementwiseStatement, match_epilogue
from relax_mlir.schedules.kernel_view import Kernel, Statement
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import NotApplicable, check_statements
from relax_mlir.schedules.winograd import (
    INPUT_TILE,
    KERNEL_SIZE,
    LIMIT_COUNT,
    OUTPUT_TILE,
)

__all__ = ["WinogradConfiguration", "WinogradPlan", "plan_winograd"]


_POINTS = INPUT_TILE * INPUT_TILE
_CACHE_BYTES = 600 << 10  # share of L2 for scratch
_BYTES_PER_CYCLE = 8  # bandwidth of L3
_FMAS_PER_CYCLE = 32  # peak multiply-adds


@dataclass(frozen=True)
class WinogradConfiguration(Configuration):
    """Tunable parameters of a Winograd convolution.

    Attributes:
        rows, columns: tiles per block, down and across.
        panels: panels of output channels per output transform.
    """

    rule = "Winograd"
    rows: int
    columns: int
    panels: int


@dataclass(frozen=True)
class WinogradPlan:
    """A kernel matched as a Winograd convolution.

    Attributes:
        data: the image, with implicit padding.
        kernel: the weights, [KERNEL, KERNEL, panels, channels, width].
        transformed: the transformed weights, [READ, READ, panels, channels, width].
        limits: the input limits; see ``schedules/winograd.py``.
        channels: input channels of the convolution; the image may have more.
        width: output channels per panel.
        anchor: the direct convolution; maps: elementwise statements of the epilogue.
        axes: of the anchor: image, row, column, output channel.
    """

    data: Padding
    kernel: ir.Value
    transformed: ir.Value
    limits: ir.Value
    channels: int
    width: int
    anchor: Statement
    maps: tuple[ElementwiseStatement, ...]
    axes: tuple[int, int, int, int]

    @property
    def result(self) -> list[int]:
        """Shape of the result, NHWC."""
        return [static_size(self.anchor.extents[axis]) for axis in self.axes]

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles per image, down and across."""
        _, rows, columns, _ = self.result
        return -(-rows // OUTPUT_TILE), -(-columns // OUTPUT_TILE)

    @property
    def panels(self) -> int:
        """Number of panels of output channels."""
        return -(-self.result[-1] // self.width)

    def configurations(self, lanes: int) -> list[WinogradConfiguration]:
        """Configurations of equal blocks, by increasing estimated time."""
        down, across = self.tiles
        choices = [
            WinogradConfiguration(rows, columns, at_once)
            for rows in _divisors(down)
            for columns in _divisors(across)
            for at_once in (1, self.panels)
            if rows == 1 or columns == across
        ]
        return sorted(choices, key=lambda choice: self._cycles(choice, lanes))

    def _cycles(self, configuration: WinogradConfiguration, lanes: int) -> float:
        """Estimated cycles of a configuration: memory traffic and multiply-adds."""
        *_, out = self.result
        tiles = configuration.rows * configuration.columns
        at_once = configuration.panels
        values = 4 * _POINTS * tiles * self.channels
        products = 4 * _POINTS * tiles * at_once * self.width
        traffic = weights = 4 * _POINTS * self.channels * out
        if values + products > _CACHE_BYTES:
            passes = -(-self.panels // at_once)
            traffic += values * (1 + passes) + 2 * products * passes
        elif values + products + weights <= _CACHE_BYTES * 3 // 2:
            traffic //= 4
        vectors = self.width // lanes
        tile = tile_of_width(GemmRows(tiles), vectors, 32 * lanes)
        work = _POINTS * tiles * self.channels * out / _FMAS_PER_CYCLE
        work *= cost_per_fma(tile, GemmRows(tiles), vectors)
        blocks = math.prod(self.tiles) // tiles
        return (traffic / _BYTES_PER_CYCLE + work) * blocks


def plan_winograd(kernel: Kernel) -> WinogradPlan:
    """Match a kernel as a Winograd convolution.

    Raises:
        NotApplicable: ``tir-use-winograd`` has not marked it, its operands do not have the shapes
            that the attribute implies, or its epilogue is not elementwise.
    """
    if WINOGRAD not in kernel.function.attributes:
        raise NotApplicable(
            "it is not a convolution that `tir-use-winograd` has marked"
        )
    check_statements(kernel)
    padding, statements = split_padding(kernel)
    anchor, *rest = statements
    axes = [form.single_variable for form in anchor.outputs[0].forms]
    image, row, column, out = (static_size(axis) for axis in axes)
    maps = match_epilogue(anchor, (out,), rest, kernel)
    arguments = list(kernel.function.arguments)
    _, *numbers = kernel.function.attributes[WINOGRAD]
    transformed, limits = (arguments[number] for number in numbers)
    by_rank = {ir.MemRefType(a.buffer.type).rank: a.buffer for a in anchor.inputs}
    if by_rank.keys() != {4, 5}:
        raise NotApplicable("its operands are not an image and a prepacked kernel")
    data, weights = by_rank[4], by_rank[5]
    _, _, *panel = ir.MemRefType(weights.type).shape
    expected = (
        (weights, [KERNEL_SIZE, KERNEL_SIZE, *panel]),
        (transformed, [INPUT_TILE, INPUT_TILE, *panel]),
        (limits, [LIMIT_COUNT]),
    )
    if any(list(ir.MemRefType(b.type).shape) != shape for b, shape in expected):
        raise NotApplicable(
            "its kernels and limits do not have the shapes for Winograd"
        )
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
    """Sizes of the part of the image that the results depend on; it may be a slice."""
    halo = [0, KERNEL_SIZE - 1, KERNEL_SIZE - 1, 0]
    images, rows, columns, _ = plan.result
    results = (images, rows, columns, plan.channels)
    dimensions = zip(results, halo, plan.data.before, plan.data.sizes, strict=True)
    return [min(size, n + extra - before) for n, extra, before, size in dimensions]


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
