"""Which kernels ``tir-use-winograd`` has written, and where in them what is."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.rewriting import walk
from relax_mlir.schedules.emit import static
from relax_mlir.schedules.epilogue import Map, maps_after
from relax_mlir.schedules.nest import Kernel, Statement
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import Refusal, check_statements

__all__ = ["WinogradPlan", "plan_winograd"]


@dataclass(frozen=True)
class WinogradPlan:
    """How a kernel is a convolution by tiles.

    Attributes:
        data: what is read, padded or not; kernel: the buffer of the transformed kernel.
        channels: input channels that are summed; the data may have more.
        tiles: down and across.
        width: output channels of a block of the kernel.
        anchor: the sum that gives the results; maps: what follows.
        axes: of the anchor: image, row, column, output channel.
    """

    data: Padding
    kernel: ir.Value
    channels: int
    tiles: tuple[int, int]
    width: int
    anchor: Statement
    maps: tuple[Map, ...]
    axes: tuple[int, int, int, int]

    @property
    def result(self) -> list[int]:
        """Images, rows, columns, channels."""
        return [static(self.anchor.extents[axis]) for axis in self.axes]


def plan_winograd(kernel: Kernel) -> WinogradPlan:
    """The plan of a kernel.

    Raises:
        Refusal: ``tir-use-winograd`` has not written it, or what follows is no map.
    """
    if "tir.winograd" not in kernel.function.attributes:
        raise Refusal("it is no convolution that `tir-use-winograd` has rewritten")
    check_statements(kernel)
    padding, statements = split_padding(kernel)
    to_points, products, anchor, *rest = statements
    axes = [form.single_axis for form in anchor.outputs[0].forms]
    image, row, column, out = (static(axis) for axis in axes)
    maps = maps_after(anchor, (out,), rest, kernel)
    arguments = list(kernel.function.arguments)
    (weights,) = (a.buffer for a in products.inputs if a.buffer in arguments)
    loads = (o for o in walk(to_points.op) if o.operation.name == "memref.load")
    inside = [load.operands[0] for load in loads]
    read = [*(a.buffer for a in to_points.inputs), *inside]
    known = arguments if padding is None else [padding.buffer]
    (data,) = {b for b in read if b in known and ir.MemRefType(b.type).rank == 4}
    if padding is None:
        zero = ir.FloatAttr.get(ir.F32Type.get(), 0.0)
        padding = Padding(data, data, [0] * 4, zero)
    shape = ir.MemRefType(to_points.outputs[0].buffer.type).shape
    width = ir.MemRefType(weights.type).shape[-1]
    *_, down, across, channels = shape
    axes = image, row, column, out
    tiles = down, across
    return WinogradPlan(padding, weights, channels, tiles, width, anchor, maps, axes)
