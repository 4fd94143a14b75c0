"""``tir-use-winograd``: selects Winograd F(4x4, 3x3) for 3x3 convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import (
    ContractionBlock,
    OperandAccess,
    match_contraction,
)
from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar
from relax_mlir.dialects.tir.attribute_names import WINOGRAD
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.rewrite.functions import derived_constant, pooled_constant
from relax_mlir.rewrite.patterns import Pass, clone
from relax_mlir.runtime.cuda.arrays import row_major_strides
from relax_mlir.runtime.derived_constants import PaddedCopy, derive
from relax_mlir.schedules.cpu.gemm_tile import GemmRows, choose_tile
from relax_mlir.schedules.target_features import VectorUnit, WinogradPolicy
from relax_mlir.schedules.winograd import (
    INPUT_TILE,
    KERNEL_SIZE,
    LIMIT_COUNT,
    OUTPUT_TILE,
    input_limits,
    kernel_transform,
)
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["UseWinograd"]

# Approximate cycles of one core, for the choice.
_PER_MULTIPLY_ADD = 1 / 30  # two vector FMAs of sixteen lanes per cycle
_PER_BYTE = 1 / 8  # reading weights from the L3 cache or memory
_PER_TRANSFORM = 110  # transforming a tile of a vector of channels
_GAIN = 0.8  # ratio of times below which the larger rounding error is worth it

_F32 = dtypes.dtype("float32")


@dataclass(frozen=True)
class UseWinograd(Pass):
    """Rewrite 3x3 convolutions for Winograd F(4x4, 3x3) where that is faster.

    Applies to f32 convolutions by constant 3x3 kernels with stride 1, in NHWC, whose channels
    fill vectors. The program remains a direct convolution, by a kernel in panels of output
    channels. It gets two more arguments: the transformed kernel, and the limits of the inputs
    that may be convolved with it. The attribute ``tir.winograd`` numbers the data and
    these two; the rule ``Winograd`` uses them. ``schedules/winograd.py`` describes the method
    and its error. Kernels whose weights allow no such limits stay as they are.

    Args:
        unit: vector features of the CPU.
        winograd: ``auto``, or ``never`` to leave all convolutions direct.
    """

    unit: VectorUnit = VectorUnit()
    winograd: WinogradPolicy = "auto"

    def run(self, module: IRModule) -> None:
        if self.winograd == "never":
            return
        copies = PrimFuncCopies(module)
        rewriting = _Rewriting(module, copies, self.unit)
        for call in copies.calls():
            rewriting.call(call)
        copies.erase_dead()


@dataclass(frozen=True)
class _Convolution:
    """A convolution that Winograd tiles support.

    Attributes:
        contraction: the contraction.
        data, kernel: numbers of the program's arguments.
        kernel_axes: axes of the contraction: kernel rows and columns, input and output
            channels.
        channels: input channels of the reduction; the data may have more.
        result: sizes of the result: batch, rows, columns, channels.
        width: output channels of a panel of the kernel.
        rate: multiply-adds per instruction relative to f32 in the direct convolution.
    """

    contraction: ContractionBlock
    data: int
    kernel: int
    kernel_axes: tuple[int, int, int, int]
    channels: int
    result: tuple[int, int, int, int]
    width: int
    rate: int = 1

    @property
    def tiles(self) -> tuple[int, int]:
        """The number of tiles along rows and columns."""
        _, rows, columns, _ = self.result
        return -(-rows // OUTPUT_TILE), -(-columns // OUTPUT_TILE)

    @property
    def is_faster(self) -> bool:
        """Whether it takes notably less time by the cost model."""
        n, rows, columns, out = self.result
        channels = self.channels
        down, across = self.tiles
        tiles = n * down * across
        direct = (
            n * rows * columns * KERNEL_SIZE**2 * channels * out * _PER_MULTIPLY_ADD
        )
        direct += KERNEL_SIZE**2 * channels * out * 4 * _PER_BYTE
        direct /= self.rate
        gemm = INPUT_TILE**2 * tiles * channels * out * _PER_MULTIPLY_ADD
        weights = INPUT_TILE**2 * channels * out * 4 * _PER_BYTE
        lanes = 16
        transforms = tiles * (channels + out) / lanes * _PER_TRANSFORM
        return gemm + weights + transforms < _GAIN * direct

    @property
    def order(self) -> list[int]:
        """The dimensions of the kernel as [KERNEL, KERNEL, input channels, output channels]."""
        # See _convolution: the kernel comes first.
        forms = self.contraction.operands[0].index_maps
        where = {next(iter(f.coefficients)): d for d, f in enumerate(forms)}
        return [where[axis] for axis in self.kernel_axes]

    def panels(self, source: str, shape: Sequence[int]) -> PaddedCopy:
        """The kernel as [KERNEL, KERNEL, panels, input channels, width].

        Args:
            source: the key of the kernel.
            shape: of the kernel.
        """
        strides = row_major_strides(shape)
        axes = tuple((shape[dim], strides[dim]) for dim in self.order)
        (_, _, (inputs, _), (outputs, _)), width = axes, self.width
        taps = ((KERNEL_SIZE, 0, 1), (KERNEL_SIZE, 1, 1))
        panels = ((-(-outputs // width), 3, width), (inputs, 2, 1), (width, 3, 1))
        return PaddedCopy(source, axes, (*taps, *panels))


def _convolution(program: func.FuncOp, unit: VectorUnit) -> _Convolution | None:
    """The convolution of a program, if Winograd applies and is faster."""
    found = match_contraction(program) if may_permute(program) else None
    if found is None or program.attributes["tir.num_outputs"].value != 1:
        return None
    for kernel, data in (found.operands, found.operands[::-1]):
        contraction = ContractionBlock(
            found.block, found.output, found.output_maps, (kernel, data)
        )
        fitting = _fitting(contraction, kernel, data, unit)
        if fitting is not None and fitting.is_faster:
            return fitting
    return None


def _fitting(
    contraction: ContractionBlock,
    kernel: OperandAccess,
    data: OperandAccess,
    unit: VectorUnit,
) -> _Convolution | None:
    axes = _kernel_axes(contraction, kernel, data)
    element = ir.MemRefType(contraction.output.type).element_type
    if axes is None or str(element) != "f32":
        return None
    if any(isinstance(r.buffer.owner, ir.OpView) for r in (kernel, data)):
        return None
    n, row, column, out = (form.single_variable for form in contraction.output_maps)
    down, across, channel = axes
    extents, lanes = contraction.extents, unit.vector_bits // 32
    sizes = [extents[a] for a in (n, row, column, out)]
    kernel_axes = (down, across, channel, out)
    is_small = extents[down] == extents[across] == KERNEL_SIZE
    if not is_small or min(*sizes, extents[channel]) < 1:
        return None
    if extents[channel] % lanes or extents[out] % lanes:
        return None
    tiles = -(-sizes[1] // OUTPUT_TILE) * -(-sizes[2] // OUTPUT_TILE)
    vectors = choose_tile(
        GemmRows(tiles), extents[out], lanes, unit.vector_bits
    ).vectors
    return _Convolution(
        contraction,
        data=ir.BlockArgument(data.buffer).arg_number,
        kernel=ir.BlockArgument(kernel.buffer).arg_number,
        kernel_axes=kernel_axes,
        channels=extents[channel],
        result=tuple(sizes),
        width=vectors * lanes,
        rate=unit.rate(element, *((r.element, r.extend) for r in (kernel, data))),
    )


def _kernel_axes(
    contraction: ContractionBlock, kernel: OperandAccess, data: OperandAccess
) -> tuple[int, int, int] | None:
    """The kernel axes of stride-1 windows: rows, columns, channels."""
    if (
        len(contraction.output_maps) != 4
        or len(data.index_maps) != 4
        or len(kernel.index_maps) != 4
    ):
        return None
    n, row, column, out = (form.single_variable for form in contraction.output_maps)
    if None in (n, row, column, out) or data.index_maps[0].single_variable != n:
        return None
    down = _tap(data.index_maps[1], row)
    across = _tap(data.index_maps[2], column)
    channel = data.index_maps[3].single_variable
    if down is None or across is None or channel is None:
        return None
    read = {form.single_variable for form in kernel.index_maps}
    return (down, across, channel) if read == {out, down, across, channel} else None


def _tap(form: AffineForm[int], point: int | None) -> int | None:
    """The axis added to ``point`` in an index, if the index is their sum."""
    others = [axis for axis in form.coefficients if axis != point]
    is_sum = form.constant == 0 and set(form.coefficients.values()) == {1}
    return (
        others[0]
        if is_sum and len(others) == 1 and point in form.coefficients
        else None
    )


@dataclass(frozen=True)
class _Constants:
    """The constants of a rewritten call that replace its kernel.

    Attributes:
        kernel: in panels; transformed: the transformed kernel, in panels.
        limits: of the inputs; see :class:`InputLimits`.
    """

    kernel: ir.Value
    transformed: ir.Value
    limits: ir.Value


class _Rewriting:
    """Rewrites the calls of convolutions."""

    def __init__(
        self, module: IRModule, copies: PrimFuncCopies, unit: VectorUnit
    ) -> None:
        self._module, self._copies, self._unit = module, copies, unit
        self._found: dict[str, _Convolution | None] = {}
        self._constants: dict[tuple[ir.Value, int], _Constants | None] = {}
        self._made: dict[str, str] = {}

    def call(self, op: CallTirOp) -> None:
        """Rewrites a call, if its program qualifies and its kernel is constant and has limits."""
        name = op.attributes["callee"].value
        if name not in self._found:
            program = self._copies.programs.get(name)
            self._found[name] = (
                None if program is None else _convolution(program, self._unit)
            )
        found = self._found[name]
        values = tensors.tuple_elements(op.args)
        if found is None or max(found.kernel, found.data) >= len(values):
            return
        constants = self._constants_of(values[found.kernel], found)
        if constants is None:
            return
        with ir.InsertionPoint(op), op.location:
            values[found.kernel] = constants.kernel
            values += [constants.transformed, constants.limits]
            op.operation.operands[0] = tensors.pack_tuple(values)
            if name not in self._made:
                self._made[name] = self._copies.fresh_name(f"{name}_winograd")
                _write(self._copies.programs[name], found, self._made[name])
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(self._made[name])

    def _constants_of(self, value: ir.Value, found: _Convolution) -> _Constants | None:
        """The constants of a kernel; None if it is not constant, or has no limits."""
        if not isinstance(value.owner, ConstantOp):
            return None
        if (value, found.width) not in self._constants:
            made = self._write_constants(value.owner, found)
            self._constants[value, found.width] = made
        return self._constants[value, found.width]

    def _write_constants(
        self, source: ConstantOp, found: _Convolution
    ) -> _Constants | None:
        module, key = self._module, source.key or "constant"
        kernel = source.array(module.constants)
        limits = input_limits(kernel.transpose(found.order))
        if limits is None:
            return None
        with ir.InsertionPoint(source), source.location:
            copy = found.panels(key, kernel.shape)
            panels = derived_constant(module, source, copy, f"{key}.panels")
            return _Constants(
                panels,
                self._transformed(panels.owner, copy.shape, f"{key}.winograd"),
                pooled_constant(module, limits.array, f"{key}.limits"),
            )

    def _transformed(
        self, panels: ConstantOp, shape: Sequence[int], key: str
    ) -> ir.Value:
        transform = kernel_transform(panels.key or "constant", shape)
        array = panels.array(self._module.constants)
        if array.dtype == np.float32:
            return derived_constant(self._module, panels, transform, key)
        return pooled_constant(
            self._module, derive(transform, array.astype(np.float32)), key
        )


def _write(original: func.FuncOp, found: _Convolution, name: str) -> None:
    """Emits the program of a rewritten convolution before the original."""
    with ir.InsertionPoint(original), original.location:
        _Program(original, found, name).write()


class _Program:
    """Emits the program of one convolution, and copies its epilogue.

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
        types[found.kernel] = tensors.tensor_type(
            (KERNEL_SIZE, KERNEL_SIZE, *panel), dtype
        )
        types += [
            tensors.tensor_type((INPUT_TILE, INPUT_TILE, *panel), _F32),
            tensors.tensor_type((LIMIT_COUNT,), _F32),
        ]
        self.builder = Builder(name, [], types, [_tensor_type(out)])
        self.given = self.builder.inputs

    def write(self) -> None:
        """Emits the program."""
        b, found = self.builder, self.found
        convolved = self._convolved()
        *inputs, out = list(self.original.arguments)
        given = self.given[: len(inputs)]
        mapping = dict(zip(inputs, (g.value for g in given), strict=True))
        old = found.contraction.output
        mapping[old] = convolved.value
        result = convolved
        if old != out:
            result = b.alloc(*b.results[0])
            mapping[out] = result.value
        with ir.InsertionPoint(b.function.entry_block):
            for op in list(self.original.entry_block.operations)[:-1]:
                if op != found.contraction.block and old not in op.operation.results:
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

        summed = (KERNEL_SIZE, KERNEL_SIZE, self.found.channels)
        return b.reduce_over("add", self.found.result, summed, body, _F32, "conv2d")


def _tensor_type(buffer: ir.Value) -> ir.RankedTensorType:
    memref = ir.MemRefType(buffer.type)
    return ir.RankedTensorType.get(list(memref.shape), memref.element_type)
