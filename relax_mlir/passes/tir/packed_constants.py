"""Constant factors of sums, in the order in which kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
from relax_mlir.rewriting import erase, is_read_once

__all__ = ["Packed", "Packing", "may_pack", "summed_axes"]


@dataclass(frozen=True)
class Packed:
    """How one argument of a program is packed.

    Attributes:
        number: of the argument; shape: of its buffer.
        forms: its indices, in the axes of the sum.
        axes: the axes of the packed array in order; the columns' last, if they are in
            blocks.
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
        sizes = [self.extents[axis] for axis in self.axes]
        if not self.width:
            return sizes
        *summed, columns = sizes
        blocks = -(-columns // self.width)
        if self.group == 1:
            return [blocks, *summed, self.width]
        groups = -(-summed[-1] // self.group)
        return [blocks, *summed[:-1], groups, self.width, self.group]

    def indices(self, at: Sequence[ir.Value]) -> list[ir.Value]:
        """Where an element is, from its place along the axes of the sum."""
        if not self.width:
            return [at[axis] for axis in self.axes]
        *summed, column = (Index(at[axis]) for axis in self.axes)
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


class Packing:
    """Packs the constants that programs are called with.

    Args:
        choose: how a factor of a sum is packed, if it may be: told the sum, the factor and
            the other one.
    """

    def __init__(self, module: IRModule, choose: Choose) -> None:
        self._copies = ProgramCopies(module)
        self._module, self._choose = module, choose
        self._found: dict[str, Packed | None] = {}
        self._constants: dict[tuple[ir.Value, str], ir.Value] = {}
        self._made: dict[str, str] = {}

    def run(self) -> None:
        """Pack what all calls pass, and drop the programs that nobody calls any more."""
        for call in self._copies.calls():
            self._call(call)
        self._copies.drop_unread()

    def _call(self, op: CallTirOp) -> None:
        """Let a call pass a packed constant, if its program has a place for one."""
        name = op.attributes["callee"].value
        if name not in self._found:
            program = self._copies.programs.get(name)
            self._found[name] = (
                None if program is None else _packed(program, self._choose)
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
        self, value: ir.Value, source: ConstantOp, packed: Packed
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

    def _program(self, name: str, packed: Packed) -> str:
        if name not in self._made:
            copy = self._copies.copy(name)
            _rewrite(copy, packed)
            self._made[name] = ir.StringAttr(copy.attributes["sym_name"]).value
        return self._made[name]


Choose: TypeAlias = Callable[[SumOfProducts, Read, Read], Packed | None]


def may_pack(total: SumOfProducts, weight: Read) -> bool:
    """Whether a factor is an argument of known sizes, read once, at plain places.

    It must have columns, the last axis of the result, and no other separate products.
    """
    column, extents, used = total.column, total.extents, weight.axes
    is_plain = all(
        f.constant == 0 and min(f.coefficients.values(), default=0) >= 0
        for f in weight.forms
    )
    is_argument = isinstance(weight.buffer.owner, ir.Block)
    is_known = is_plain and min(weight.shape) >= 0
    if not is_argument or not is_read_once(weight.buffer) or not is_known:
        return False
    if column not in used or any(extents[axis] < 0 for axis in used):
        return False
    return not any(total.kinds[axis] == "S" and axis != column for axis in used)


def summed_axes(total: SumOfProducts, weight: Read, other: Read) -> list[int]:
    """The axes of the sum, in the order in which the other factor is read."""
    order = {axis: n for n, f in enumerate(other.forms) for axis in f.coefficients}
    found = (axis for axis in weight.axes if axis != total.column)
    return sorted(found, key=lambda axis: order.get(axis, -1))


def _packed(program: func.FuncOp, choose: Choose) -> Packed | None:
    """What a program reads that can be packed: the columns of its only contraction."""
    found = sum_of_products(program) if may_permute(program) else None
    if found is None:
        return None
    for weight, other in (found.factors, found.factors[::-1]):
        packed = choose(found, weight, other)
        if packed is not None:
            return packed
    return None


def _rewrite(program: func.FuncOp, packed: Packed) -> None:
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
