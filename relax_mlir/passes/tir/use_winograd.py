"""``tir-use-winograd``: marks 3x3 convolutions for Winograd F(4x4, 3x3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar
from relax_mlir.dialects.tir.marks import WINOGRAD
from relax_mlir.errors import PassError, near_misses
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
    LIMITS,
    READ,
    WINOGRAD_POLICIES,
    WRITTEN,
    input_limits,
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

    For convolutions of f32 by constant 3x3 kernels with stride 1, in NHWC, whose channels
    fill vectors. The program remains a direct convolution, by a kernel in panels of output
    channels. It takes two more arguments: the transformed kernel, and the limits of the
    inputs that may be convolved with it. The attribute ``tir.winograd`` numbers the data and
    these two; the rule ``Winograd`` uses them. ``schedules/winograd.py`` has the method and
    its error. Kernels whose weights allow no such limits stay as they are.

    Args:
        winograd: ``auto``, or ``never`` to leave all convolutions direct.
    """

    winograd: str = "auto"

    def run(self, module: IRModule) -> None:
        if self.winograd not in WINOGRAD_POLICIES:
            raise PassError(
                f"`tir-use-winograd`: unknown winograd `{self.winograd}`: expected one of "
                f"{', '.join(WINOGRAD_POLICIES)}."
                f"{near_misses(self.winograd, WINOGRAD_POLICIES)}"
            )
        if self.winograd == "never":
            return
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
        channels: input channels that are summed; the data may have more.
        result: sizes of the result: batch, rows, columns, channels.
        width: output channels of a panel of the kernel.
        rate: how often as many products as of f32 are taken at a time, if it is
            computed plainly.
    """

    total: SumOfProducts
    data: int
    kernel: int
    kernel_axes: tuple[int, int, int, int]
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

    def in_order(self, kernel: np.ndarray) -> np.ndarray:
        """[KERNEL, KERNEL, input channels, output channels]."""
        forms = self.total.factors[0].forms  # see _convolution: the kernel comes first
        where = {next(iter(f.coefficients)): d for d, f in enumerate(forms)}
        return kernel.transpose([where[axis] for axis in self.kernel_axes])

    def in_panels(self, kernel: np.ndarray) -> np.ndarray:
        """[..., input, output channels] as [..., panels, input channels, width]."""
        return np.ascontiguousarray(np.moveaxis(in_blocks(kernel, self.width), 0, 2))


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


@dataclass(frozen=True)
class _Constants:
    """The constants that a rewritten call takes in place of its kernel.

    Attributes:
        kernel: in panels; transformed: the kernel at the points, in panels.
        limits: of the inputs; see :class:`InputLimits`.
    """

    kernel: ir.Value
    transformed: ir.Value
    limits: ir.Value


class _Rewriting:
    """Rewrites the calls of convolutions."""

    def __init__(
        self, module: IRModule, copies: ProgramCopies, unit: VectorUnit
    ) -> None:
        self._module, self._copies, self._unit = module, copies, unit
        self._found: dict[str, _Convolution | None] = {}
        self._constants: dict[tuple[ir.Value, int], _Constants | None] = {}
        self._made: dict[str, str] = {}

    def call(self, op: CallTirOp) -> None:
        """Rewrite a call, if its program suits, its kernel is known, and has limits."""
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
        constants = self._constants_of(values[found.kernel], found)
        if constants is None:
            return
        with ir.InsertionPoint(op), op.location:
            values[found.kernel] = constants.kernel
            values += [constants.transformed, constants.limits]
            op.operation.operands[0] = tensors.pack(values)
            if name not in self._made:
                self._made[name] = self._copies.fresh_name(f"{name}_winograd")
                _write(self._copies.programs[name], found, self._made[name])
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(self._made[name])

    def _constants_of(self, value: ir.Value, found: _Convolution) -> _Constants | None:
        """The constants of a kernel; None if it is none, or its weights do not suit."""
        if not isinstance(value.owner, ConstantOp):
            return None
        if (value, found.width) not in self._constants:
            made = self._write_constants(value.owner, found)
            self._constants[value, found.width] = made
        return self._constants[value, found.width]

    def _write_constants(
        self, source: ConstantOp, found: _Convolution
    ) -> _Constants | None:
        kernel = found.in_order(source.array(self._module.constants))
        limits = input_limits(kernel)
        if limits is None:
            return None
        at_points = transformed_kernel(kernel).astype(np.float32)
        arrays = {
            "panels": found.in_panels(kernel),
            "winograd": found.in_panels(at_points),
            "limits": limits.array,
        }
        key = source.key or "constant"
        with ir.InsertionPoint(source), source.location:
            made = [
                constant(self._module, array, f"{key}.{suffix}")
                for suffix, array in arrays.items()
            ]
        return _Constants(*made)


def _write(original: func.FuncOp, found: _Convolution, name: str) -> None:
    """Write the program of a rewritten convolution in front of the original."""
    with ir.InsertionPoint(original), original.location:
        _Program(original, found, name).write()


class _Program:
    """Writes the program of one convolution, and copies what follows its sum.

    Its inputs are those of the original, the kernel in panels, then the transformed kernel
    and the limits, which no statement reads.
    """

    def __init__(self, original: func.FuncOp, found: _Convolution, name: str) -> None:
        self.original, self.found = original, found
        *inputs, out = list(original.arguments)
        types = [_tensor_type(v) for v in inputs]
        panels = -(-found.result[3] // found.width)
        panel = (panels, found.channels, found.width)
        dtype = tensors.dtype_of(types[found.kernel])
        types[found.kernel] = tensors.tensor_type((KERNEL, KERNEL, *panel), dtype)
        types += [
            tensors.tensor_type((READ, READ, *panel), _F32),
            tensors.tensor_type((LIMITS,), _F32),
        ]
        self.builder = Builder(name, [], types, [_tensor_type(out)])
        self.given = self.builder.inputs

    def write(self) -> None:
        """Write it."""
        b, found = self.builder, self.found
        total = self._convolved()
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
        numbers = [found.data, len(inputs), len(inputs) + 1]
        made.attributes[WINOGRAD] = ir.DenseI64ArrayAttr.get(numbers)

    def _convolved(self) -> Buffer:
        """The direct convolution, by the kernel in panels."""
        b, width = self.builder, self.found.width
        x, kernel = self.given[self.found.data], self.given[self.found.kernel]

        def body(*axes: Index) -> Scalar:
            image, row, column, o, r, s, c = axes
            number = b.cast(x[image, row + r, column + s, c], _F32)
            return number * b.cast(kernel[r, s, o // width, c, o % width], _F32)

        summed = (KERNEL, KERNEL, self.found.channels)
        return b.reduce_over("add", self.found.result, summed, body, _F32, "conv2d")


def _tensor_type(buffer: ir.Value) -> ir.RankedTensorType:
    memref = ir.MemRefType(buffer.type)
    return ir.RankedTensorType.get(list(memref.shape), memref.element_type)
