"""``tir-pack-constants``: weights lie in memory as the loops read them."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.tir import Index
from relax_mlir.graphs import constant
from relax_mlir.indexing import Linear
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.column_blocks import in_blocks
from relax_mlir.passes.tir.permute_buffers import may_permute, set_argument_type
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.passes.tir.sums import Read, SumOfProducts, sum_of_products
from relax_mlir.passes.unit_pass import UnitPass
from relax_mlir.rewriting import erase
from relax_mlir.schedules.cpu.amx import block_columns, step_of_run, takes_rows
from relax_mlir.schedules.cpu.contraction_tile import Rows, choose_tile
from relax_mlir.schedules.rule import VectorUnit

__all__ = ["PackConstants"]


@dataclass(frozen=True)
class PackConstants(UnitPass):
    """Store the constant operand of a contraction in blocks of columns.

    A block has as many columns as the rule ``Contraction`` takes at once. It holds them
    for each step of the sum, in the order in which the other operand is read, so that a
    loop reads it from the first byte to the last. The last block is filled up with zeros.
    Where each column has a sum of its own, as in depthwise convolutions, there are no
    blocks: the columns lie side by side. Where one instruction sums several products of
    narrow numbers, or multiplies matrices of them, as many steps of the sum of each column
    are neighbours.
    """

    def run(self, module: IRModule) -> None:
        packing = _Packing(module, ProgramCopies(module), self.unit)
        for call in packing.copies.calls():
            packing.call(call)
        packing.copies.drop_unread()


@dataclass(frozen=True)
class _Packed:
    """How one argument of a program is packed.

    Attributes:
        number: of the argument; shape: of its buffer.
        forms: its indices, in the axes of the sum.
        axes: the axes of the packed array in order, the columns' last.
        extents: of all axes of the sum.
        width: columns of a block; 0 if all are side by side.
        group: steps of the sum that are neighbours, in blocks.
    """

    number: int
    shape: Sequence[int]
    forms: Sequence[Linear]
    axes: Sequence[int]
    extents: Sequence[int]
    width: int
    group: int = 1

    @property
    def packed_shape(self) -> list[int]:
        """Sizes of the packed array."""
        *summed, columns = (self.extents[axis] for axis in self.axes)
        if not self.width:
            return [*summed, columns]
        blocks = -(-columns // self.width)
        if self.group == 1:
            return [blocks, *summed, self.width]
        groups = -(-summed[-1] // self.group)
        return [blocks, *summed[:-1], groups, self.width, self.group]

    def indices(self, at: Sequence[ir.Value]) -> list[ir.Value]:
        """Where an element is, from its place along the axes of the sum."""
        *summed, column = (Index(at[axis]) for axis in self.axes)
        if not self.width:
            return [index.value for index in (*summed, column)]
        place = [column // self.width, *summed, column % self.width]
        if self.group > 1:
            last = summed[-1]
            place = [*place[:-2], last // self.group, place[-1], last % self.group]
        return [Index.value_of(index) for index in place]

    def array(self, source: np.ndarray) -> np.ndarray:
        """The packed array: outer axes, blocks, steps of the sum, columns of a block."""
        strides = dict.fromkeys(self.axes, 0)
        for form, stride in zip(self.forms, source.strides, strict=True):
            for axis, factor in form.coefficients.items():
                strides[axis] += factor * stride
        sizes = [self.extents[axis] for axis in self.axes]
        steps = [strides[axis] for axis in self.axes]
        view = np.lib.stride_tricks.as_strided(source, sizes, steps, writeable=False)
        if not self.width:
            return np.ascontiguousarray(view)
        if self.group > 1:
            more = -view.shape[-2] % self.group
            view = np.pad(view, [*[(0, 0)] * (view.ndim - 2), (0, more), (0, 0)])
        packed = in_blocks(view, self.width)
        if self.group == 1:
            return packed
        apart = packed.reshape(*packed.shape[:-2], -1, self.group, self.width)
        return np.ascontiguousarray(apart.swapaxes(-1, -2))


class _Packing:
    """Packs the constants that programs are called with.

    Attributes:
        copies: of programs.
    """

    def __init__(
        self, module: IRModule, copies: ProgramCopies, unit: VectorUnit
    ) -> None:
        self.copies = copies
        self._module, self._unit = module, unit
        self._found: dict[str, _Packed | None] = {}
        self._constants: dict[tuple[ir.Value, str], ir.Value] = {}
        self._made: dict[str, str] = {}

    def call(self, op: CallTirOp) -> None:
        """Let a call pass a packed constant, if its program has a place for one."""
        name = op.attributes["callee"].value
        if name not in self._found:
            program = self.copies.programs.get(name)
            self._found[name] = (
                None if program is None else _packed(program, self._unit)
            )
        found = self._found[name]
        values = tensors.elements(op.args)
        if found is None or found.number >= len(values):
            return
        weight = values[found.number]
        if not isinstance(weight.owner, ConstantOp):
            return
        with ir.InsertionPoint(op), op.location:
            values[found.number] = self._constant(weight, weight.owner, found)
            op.operation.operands[0] = tensors.pack(values)
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(self._program(name, found))

    def _constant(
        self, value: ir.Value, source: ConstantOp, packed: _Packed
    ) -> ir.Value:
        how = (
            f"{packed.forms}{packed.axes}{packed.extents}{packed.width}x{packed.group}"
        )
        if (value, how) not in self._constants:
            array = packed.array(source.array(self._module.constants))
            key = f"{source.key or 'constant'}.packed"
            with ir.InsertionPoint(source), source.location:
                self._constants[value, how] = constant(self._module, array, key)
        return self._constants[value, how]

    def _program(self, name: str, packed: _Packed) -> str:
        if name not in self._made:
            copy = self.copies.copy(name)
            _rewrite(copy, packed)
            self._made[name] = ir.StringAttr(copy.attributes["sym_name"]).value
        return self._made[name]


_EXTF = "arith.extf"  # costs little, where other conversions are not worth packing for


def _packed(program: func.FuncOp, unit: VectorUnit) -> _Packed | None:
    """What a program reads that can be packed: the columns of its only contraction."""
    found = sum_of_products(program) if may_permute(program) else None
    if found is None:
        return None
    for weight, other in (found.factors, found.factors[::-1]):
        packed = _plan(found, weight, other, unit)
        if packed is not None:
            return packed
    return None


def _plan(
    total: SumOfProducts, weight: Read, other: Read, unit: VectorUnit
) -> _Packed | None:
    """How a weight is packed, if it may be."""
    column, extents, used = total.column, total.extents, weight.axes
    is_plain = all(
        f.constant == 0 and min(f.coefficients.values(), default=0) >= 0
        for f in weight.forms
    )
    is_argument = isinstance(weight.buffer.owner, ir.Block)
    is_read_once = len(list(weight.buffer.uses)) == 1
    if not is_argument or not is_read_once or not is_plain or min(weight.shape) < 0:
        return None
    if column not in used or any(extents[axis] < 0 for axis in used):
        return None
    if any(total.kinds[axis] == "S" and axis != column for axis in used):
        return None  # a product for each point of it: there are not many columns
    order = {axis: n for n, f in enumerate(other.forms) for axis in f.coefficients}
    summed = sorted(used - {column}, key=lambda axis: order.get(axis, -1))
    width, group = 0, 1
    if column not in other.axes:
        sum_type = ir.MemRefType(total.written.type).element_type
        types = sum_type, *((r.element, r.extend) for r in (weight, other))
        is_run = _is_run(other, summed)
        words = unit.terms_of_tile(*types)
        is_tiled = is_run and _suits_tiles(total, weight, other, summed, words)
        if is_run:
            group = words if is_tiled else unit.terms_of_dot(*types)
        sum_bits = sum_type.width
        lanes = unit.bits // sum_bits
        is_word = weight.element.width * group == sum_bits
        if extents[column] * 2 < lanes or not (is_word or weight.extend == _EXTF):
            return None
        if is_tiled:
            width = block_columns(extents[column])
        else:
            rows = _rows(total, other, used)
            tile = choose_tile(rows, extents[column], lanes, unit.bits)
            width = tile.vectors * lanes
    elif weight.stride_bytes(column) == weight.element.width // 8:
        return None
    number = ir.BlockArgument(weight.buffer).arg_number
    axes = (*summed, column)
    return _Packed(number, weight.shape, weight.forms, axes, extents, width, group)


def _is_run(read: Read, summed: Sequence[int]) -> bool:
    """Whether the terms of a sum lie side by side in an operand."""
    width = read.element.width // 8
    return bool(summed) and read.stride_bytes(summed[-1]) == width


def _suits_tiles(
    total: SumOfProducts, weight: Read, other: Read, summed: Sequence[int], terms: int
) -> bool:
    """Whether tiles pay that hold so many steps of a sum in a word; they need two."""
    rows = [total.extents[axis] for axis in _row_axes(total, other, weight.axes)]
    is_tall = min(rows, default=1) < 0 or takes_rows(math.prod(rows))
    return terms > 1 and is_tall and step_of_run(total.extents[summed[-1]], terms) > 0


def _row_axes(total: SumOfProducts, read: Read, used: Container[int]) -> list[int]:
    """The axes of rows, in the order of an operand; none of one point."""
    return [
        axis
        for form in read.forms
        for axis in form.coefficients
        if total.kinds[axis] == "S" and axis not in used and total.extents[axis] != 1
    ]


def _rows(total: SumOfProducts, read: Read, used: Container[int]) -> Rows:
    """The rows that lie side by side, at least."""
    extents, axes = total.extents, _row_axes(total, read, used)
    if not axes:
        return Rows(1)
    step = read.stride_bytes(axes[-1])
    sizes = [extents[axis] for axis in axes]
    if min(sizes) < 0:
        return Rows(None, step)
    are_windows = any(
        sum(extents[axis] != 1 for axis in form.coefficients) > 1
        or max(form.coefficients.values(), default=1) > 1
        for form in read.forms
    )
    return Rows(sizes[-1] if are_windows else math.prod(sizes), step)


def _rewrite(program: func.FuncOp, packed: _Packed) -> None:
    """Let a program read the packed array."""
    argument = program.arguments[packed.number]
    for use in list(argument.uses):
        load = use.owner
        variables = list(load.operation.block.arguments)
        with ir.InsertionPoint(load), load.location:
            where = packed.indices(variables)
            made = ir.Operation.create(
                "memref.load",
                results=[load.results[0].type],
                operands=[argument, *where],
            )
        load.results[0].replace_all_uses_with(made.results[0])
        erase(load)
    old = ir.MemRefType(argument.type)
    shape = packed.packed_shape
    type_ = ir.MemRefType.get(shape, old.element_type)
    set_argument_type(program, packed.number, type_, shape)
