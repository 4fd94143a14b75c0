"""``tir-use-winograd``: 3x3 convolutions multiply tiles of pixels at points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar
from relax_mlir.graphs import constant
from relax_mlir.indexing import Linear
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.column_blocks import in_blocks
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.passes.tir.sums import Read, SumOfProducts, sum_of_products
from relax_mlir.passes.unit_pass import UnitPass
from relax_mlir.rewriting import clone
from relax_mlir.schedules.cpu.contraction_tile import Rows, choose_tile
from relax_mlir.schedules.rule import VectorUnit
from relax_mlir.schedules.winograd import (
    KERNEL,
    READ,
    WRITTEN,
    input_matrix,
    output_matrix,
    transformed_kernel,
)

__all__ = ["UseWinograd"]

# Cycles of one core, by and large: to choose by.
_PER_PRODUCT = 1 / 30  # sixteen lanes, two a cycle
_PER_BYTE = 1 / 8  # of weights that come from the third cache or beyond
_PER_TRANSFORM = 110  # of a tile's vector of channels
_GAIN = 0.8  # of the time, from which on it is worth its rounding

_F32 = dtypes.dtype("float32")


@dataclass(frozen=True)
class UseWinograd(UnitPass):
    """Compute convolutions with fewer multiplications where that is faster.

    For convolutions of f32 by 3x3 kernels that are constant, with stride 1, whose channels
    come last and fill vectors. The program becomes three sums, and the kernel is stored as
    the second of them reads it; ``schedules/winograd.py`` tells the method and its error.
    """

    def run(self, module: IRModule) -> None:
        copies = ProgramCopies(module)
        rewriting = _Rewriting(module, copies, self.unit)
        for call in copies.calls():
            rewriting.call(call)
        copies.drop_unread()


@dataclass(frozen=True)
class _Convolution:
    """A convolution that tiles fit.

    Attributes:
        total: its sum.
        data, kernel: numbers of the program's arguments.
        kernel_axes: of the sum: along a column and a row of the kernel, input and output
            channels.
        padded: sizes of the data's buffer: batch, rows, columns, channels.
        channels: input channels that are summed; the buffer may have more.
        result: sizes of the result: batch, rows, columns, channels.
        width: columns of a block of transformed kernels.
        rate: how often as many products as of f32 are taken at a time, if it is
            computed plainly.
    """

    total: SumOfProducts
    data: int
    kernel: int
    kernel_axes: tuple[int, int, int, int]
    padded: tuple[int, int, int, int]
    channels: int
    result: tuple[int, int, int, int]
    width: int
    rate: int = 1

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along a column, and along a row."""
        _, rows, columns, _ = self.result
        return -(-rows // WRITTEN), -(-columns // WRITTEN)

    @property
    def is_faster(self) -> bool:
        """Whether it takes notably less time, by a rough count of cycles."""
        n, rows, columns, out = self.result
        channels = self.channels
        down, across = self.tiles
        tiles = n * down * across
        plain = n * rows * columns * KERNEL**2 * channels * out * _PER_PRODUCT
        plain += KERNEL**2 * channels * out * 4 * _PER_BYTE
        plain /= self.rate
        products = READ**2 * tiles * channels * out * _PER_PRODUCT
        weights = READ**2 * channels * out * 4 * _PER_BYTE
        lanes = 16
        vectors = tiles * (channels + out) / lanes * _PER_TRANSFORM
        return products + weights + vectors < _GAIN * plain

    def transformed(self, kernel: np.ndarray) -> np.ndarray:
        """[READ, READ, blocks of output channels, input channels, width], f32."""
        forms = self.total.factors[0].forms  # see _convolution: the kernel comes first
        where = {next(iter(f.coefficients)): d for d, f in enumerate(forms)}
        order = [where[axis] for axis in self.kernel_axes]
        at_points = transformed_kernel(kernel.transpose(order)).astype(np.float32)
        blocks = in_blocks(at_points, self.width)
        return np.ascontiguousarray(np.moveaxis(blocks, 0, 2))


def _convolution(program: func.FuncOp, unit: VectorUnit) -> _Convolution | None:
    """The convolution of a program, if tiles fit it and are faster."""
    found = sum_of_products(program) if may_permute(program) else None
    if found is None or program.attributes["tir.num_outputs"].value != 1:
        return None
    for kernel, data in (found.factors, found.factors[::-1]):
        total = SumOfProducts(found.block, found.written, found.places, (kernel, data))
        fitting = _fitting(total, kernel, data, unit)
        if fitting is not None and fitting.is_faster:
            return fitting
    return None


def _fitting(
    total: SumOfProducts, kernel: Read, data: Read, unit: VectorUnit
) -> _Convolution | None:
    axes = _axes(total, kernel, data)
    element = ir.MemRefType(total.written.type).element_type
    if axes is None or str(element) != "f32":
        return None
    if any(isinstance(r.buffer.owner, ir.OpView) for r in (kernel, data)):
        return None
    n, row, column, out = (form.single_axis for form in total.places)
    down, across, channel = axes
    extents, lanes = total.extents, unit.bits // 32
    sizes = [extents[a] for a in (n, row, column, out)]
    kernel_axes = (down, across, channel, out)
    is_small = extents[down] == extents[across] == KERNEL
    if not is_small or min(*sizes, extents[channel]) < 1:
        return None
    if extents[channel] % lanes or extents[out] % lanes:
        return None
    tiles = -(-sizes[1] // WRITTEN) * -(-sizes[2] // WRITTEN)
    vectors = choose_tile(Rows(tiles), extents[out], lanes, unit.bits).vectors
    return _Convolution(
        total,
        data=ir.BlockArgument(data.buffer).arg_number,
        kernel=ir.BlockArgument(kernel.buffer).arg_number,
        kernel_axes=kernel_axes,
        padded=tuple(data.shape),
        channels=extents[channel],
        result=tuple(sizes),
        width=vectors * lanes,
        rate=unit.rate(element, *((r.element, r.extend) for r in (kernel, data))),
    )


def _axes(
    total: SumOfProducts, kernel: Read, data: Read
) -> tuple[int, int, int] | None:
    """The summed axes of windows of stride 1: down, across, and the channels."""
    if len(total.places) != 4 or len(data.forms) != 4 or len(kernel.forms) != 4:
        return None
    n, row, column, out = (form.single_axis for form in total.places)
    if None in (n, row, column, out) or data.forms[0].single_axis != n:
        return None
    down = _tap(data.forms[1], row)
    across = _tap(data.forms[2], column)
    channel = data.forms[3].single_axis
    if down is None or across is None or channel is None:
        return None
    read = {form.single_axis for form in kernel.forms}
    return (down, across, channel) if read == {out, down, across, channel} else None


def _tap(form: Linear, point: int | None) -> int | None:
    """The axis that is added to ``point``, if that is all there is."""
    others = [axis for axis in form.coefficients if axis != point]
    is_sum = form.constant == 0 and set(form.coefficients.values()) == {1}
    return (
        others[0]
        if is_sum and len(others) == 1 and point in form.coefficients
        else None
    )


class _Rewriting:
    """Rewrites the calls of convolutions."""

    def __init__(
        self, module: IRModule, copies: ProgramCopies, unit: VectorUnit
    ) -> None:
        self._module, self._copies, self._unit = module, copies, unit
        self._found: dict[str, _Convolution | None] = {}
        self._constants: dict[tuple[ir.Value, int], ir.Value] = {}
        self._matrices_of: dict[ir.Block, list[ir.Value]] = {}
        self._made: dict[str, str] = {}

    def call(self, op: CallTirOp) -> None:
        """Let a call take the faster way, if its program has one and its kernel is known."""
        name = op.attributes["callee"].value
        if name not in self._found:
            program = self._copies.programs.get(name)
            self._found[name] = (
                None if program is None else _convolution(program, self._unit)
            )
        found = self._found[name]
        values = tensors.elements(op.args)
        if found is None or max(found.kernel, found.data) >= len(values):
            return
        kernel = values[found.kernel]
        if not isinstance(kernel.owner, ConstantOp):
            return
        with ir.InsertionPoint(op), op.location:
            values[found.kernel] = self._transformed(kernel, kernel.owner, found)
            values += self._matrices(op)
            op.operation.operands[0] = tensors.pack(values)
            if name not in self._made:
                self._made[name] = self._copies.fresh_name(f"{name}_winograd")
                _write(self._copies.programs[name], found, self._made[name])
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(self._made[name])

    def _matrices(self, call: CallTirOp) -> list[ir.Value]:
        """The constants that programs take beside the kernel, once a function."""
        block = call.operation.block
        if block not in self._matrices_of:
            with ir.InsertionPoint.at_block_begin(block), call.location:
                self._matrices_of[block] = [
                    constant(
                        self._module, input_matrix().astype(np.float32), "to_points"
                    ),
                    constant(
                        self._module, output_matrix().astype(np.float32), "from_points"
                    ),
                ]
        return self._matrices_of[block]

    def _transformed(
        self, value: ir.Value, source: ConstantOp, found: _Convolution
    ) -> ir.Value:
        if (value, found.width) not in self._constants:
            array = found.transformed(source.array(self._module.constants))
            key = f"{source.key or 'constant'}.winograd"
            with ir.InsertionPoint(source), source.location:
                made = constant(self._module, array, key)
            self._constants[value, found.width] = made
        return self._constants[value, found.width]


def _write(original: func.FuncOp, found: _Convolution, name: str) -> None:
    """The program in three sums, in front of the original."""
    with ir.InsertionPoint(original), original.location:
        program = _Program(original, found, name)
        program.write()


class _Program:
    """Writes the program of one convolution, and copies what follows its sum.

    Its inputs are those of the original, the transformed kernel in the place of the
    kernel, and the two matrices.
    """

    def __init__(self, original: func.FuncOp, found: _Convolution, name: str) -> None:
        self.original, self.found = original, found
        *inputs, out = list(original.arguments)
        types = [_tensor_type(v) for v in inputs]
        blocks = -(-found.result[3] // found.width)
        shape = (READ, READ, blocks, found.channels, found.width)
        types[found.kernel] = tensors.tensor_type(shape, _F32)
        types += [
            tensors.tensor_type((READ, READ), _F32),
            tensors.tensor_type((WRITTEN, READ), _F32),
        ]
        self.builder = Builder(name, [], types, [_tensor_type(out)])
        *self.given, self.input_matrix, self.output_matrix = self.builder.inputs

    def write(self) -> None:
        """Write it."""
        b, found = self.builder, self.found
        total = self._results(self._products(self._at_points()))
        *inputs, out = list(self.original.arguments)
        given = self.given[: len(inputs)]
        mapping = dict(zip(inputs, (g.value for g in given), strict=True))
        old = found.total.written
        mapping[old] = total.value
        result = total
        if old != out:
            result = b.alloc(*b.results[0])
            mapping[out] = result.value
        with ir.InsertionPoint(b.function.entry_block):
            for op in list(self.original.entry_block.operations)[:-1]:
                if op != found.total.block and old not in op.operation.results:
                    clone(op, mapping)
        made = b.finish(result)
        made.attributes["tir.winograd"] = ir.UnitAttr.get()

    def _at_points(self) -> Buffer:
        """Tiles of the data: [READ, READ, batch, tiles down, across, channels]."""
        b, x, matrix = self.builder, self.given[self.found.data], self.input_matrix
        _, rows, columns, _ = self.found.padded
        n, *_ = self.found.result
        down, across = self.found.tiles
        sizes = (WRITTEN * down + READ - WRITTEN, WRITTEN * across + READ - WRITTEN)
        beyond = [
            axis
            for axis, (size, known) in enumerate(
                zip(sizes, (rows, columns), strict=True), start=1
            )
            if size > known
        ]

        def body(*axes: Index) -> Scalar:
            i, j, image, tile_row, tile_column, channel, r, s = axes
            row = tile_row * WRITTEN + r
            column = tile_column * WRITTEN + s
            where = (image, row, column, channel)
            number = read_padded(b, x, where, beyond, b.constant(0, x.dtype))
            return matrix[i, r] * matrix[j, s] * b.cast(number, _F32)

        shape = (READ, READ, n, down, across, self.found.channels)
        taps = (READ, READ)
        return b.reduce_over("add", shape, taps, body, _F32, "to_points")

    def _products(self, values: Buffer) -> Buffer:
        """Products at the points, summed up over channels, in the shape of the tiles."""
        kernel, width = self.given[self.found.kernel], self.found.width
        *tiles, channels = values.shape
        out = self.found.result[3]

        def body(*axes: Index) -> Scalar:
            i, j, *tile, o, c = axes
            by = kernel[i, j, o // width, c, o % width]
            return values[(i, j, *tile, c)] * by

        shape = (*tiles, out)
        return self.builder.reduce_over(
            "add", shape, (channels,), body, _F32, "products"
        )

    def _results(self, products: Buffer) -> Buffer:
        """The convolution, out of the products at the points."""
        matrix = self.output_matrix

        def body(*axes: Index) -> Scalar:
            image, row, column, o, i, j = axes
            tile = (image, row // WRITTEN, column // WRITTEN)
            number = products[(i, j, *tile, o)]
            return matrix[row % WRITTEN, i] * matrix[column % WRITTEN, j] * number

        shape, taps = self.found.result, (READ, READ)
        return self.builder.reduce_over("add", shape, taps, body, _F32, "from_points")


def _tensor_type(buffer: ir.Value) -> ir.RankedTensorType:
    memref = ir.MemRefType(buffer.type)
    return ir.RankedTensorType.get(list(memref.shape), memref.element_type)
