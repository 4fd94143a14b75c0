"""Prepacking of constant operands of contractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import (
    ContractionBlock,
    OperandAccess,
    match_contraction,
)
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.tir import Index
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.tir.permute_buffers import may_permute, set_argument_type
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.rewrite.functions import derived_constant
from relax_mlir.rewrite.patterns import erase, has_one_use
from relax_mlir.runtime.cuda.arrays import row_major_strides
from relax_mlir.runtime.derived_constants import PaddedCopy
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["ConstantPacking", "PackedLayout", "may_pack", "reduction_axes"]


@dataclass(frozen=True)
class PackedLayout:
    """The packed layout of one argument of a program.

    Attributes:
        number: of the argument; shape: of its buffer.
        index_maps: its index maps over the axes of the contraction.
        axes: the axes of the packed array in order; the column axis last, if there are
            panels.
        extents: of all axes of the contraction.
        width: columns of a panel; 0 without panels.
        group: consecutive K elements of a column that are interleaved, in panels.
    """

    number: int
    shape: Sequence[int]
    index_maps: Sequence[AffineForm[int]]
    axes: Sequence[int]
    extents: Sequence[int]
    width: int
    group: int = 1

    @property
    def packed_shape(self) -> list[int]:
        """The shape of the packed array."""
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
        """The indices of an element in the packed array, from the contraction's axis variables."""
        if not self.width:
            return [at[axis] for axis in self.axes]
        *summed, column = (Index(at[axis]) for axis in self.axes)
        place = [column // self.width, *summed, column % self.width]
        if self.group > 1:
            last = summed[-1]
            place = [*place[:-2], last // self.group, place[-1], last % self.group]
        return [Index.value_of(index) for index in place]

    def derivation(self, source: str) -> PaddedCopy:
        """How the packed array is computed from that of the argument, of the key ``source``."""
        strides = dict.fromkeys(self.axes, 0)
        steps = row_major_strides(self.shape)
        for form, stride in zip(self.index_maps, steps, strict=True):
            for axis, factor in form.coefficients.items():
                strides[axis] += factor * stride
        axes = tuple((self.extents[axis], strides[axis]) for axis in self.axes)
        # Numbers of the axes in `axes`, and of how many elements a dimension makes a step.
        steps_of = [(number, 1) for number in range(len(axes))]
        if self.width:
            *summed, (column, _) = steps_of
            steps_of = [(column, self.width), *summed, (column, 1)]
            if self.group > 1:
                last = steps_of[-2][0]
                steps_of[-2] = (last, self.group)
                steps_of.append((last, 1))
        dims = zip(self.packed_shape, steps_of, strict=True)
        return PaddedCopy(source, axes, tuple((size, *step) for size, step in dims))


class ConstantPacking:
    """Packs the constants that programs are called with.

    Args:
        choose: the packing of an operand of a contraction, or None: a function of the
            contraction, the operand and the other operand.
    """

    def __init__(self, module: IRModule, choose: ChooseLayout) -> None:
        self._copies = PrimFuncCopies(module)
        self._module, self._choose = module, choose
        self._found: dict[str, PackedLayout | None] = {}
        self._constants: dict[tuple[ir.Value, PaddedCopy], ir.Value] = {}
        self._made: dict[str, str] = {}

    def run(self) -> None:
        """Packs the constants of all calls, and removes programs without callers."""
        for call in self._copies.calls():
            self._call(call)
        self._copies.erase_dead()

    def _call(self, op: CallTirOp) -> None:
        """Passes a packed constant, if the call's program has a packed version."""
        name = op.attributes["callee"].value
        if name not in self._found:
            program = self._copies.programs.get(name)
            self._found[name] = (
                None if program is None else _packed_layout(program, self._choose)
            )
        found = self._found[name]
        values = tensors.tuple_elements(op.args)
        if found is None or found.number >= len(values):
            return
        weight = values[found.number]
        if not isinstance(weight.owner, ConstantOp):
            return
        with ir.InsertionPoint(op), op.location:
            values[found.number] = self._constant(weight, weight.owner, found)
            op.operation.operands[0] = tensors.pack_tuple(values)
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(self._program(name, found))

    def _constant(
        self, value: ir.Value, source: ConstantOp, packed: PackedLayout
    ) -> ir.Value:
        key = source.key or "constant"
        layout = packed.derivation(key)
        if (value, layout) not in self._constants:
            with ir.InsertionPoint(source), source.location:
                self._constants[value, layout] = derived_constant(
                    self._module, source, layout, f"{key}.packed"
                )
        return self._constants[value, layout]

    def _program(self, name: str, packed: PackedLayout) -> str:
        if name not in self._made:
            copy = self._copies.copy(name)
            _rewrite(copy, packed)
            self._made[name] = ir.StringAttr(copy.attributes["sym_name"]).value
        return self._made[name]


ChooseLayout: TypeAlias = Callable[
    [ContractionBlock, OperandAccess, OperandAccess], PackedLayout | None
]


def may_pack(contraction: ContractionBlock, weight: OperandAccess) -> bool:
    """Whether an operand is an argument of static shape, loaded once, by non-negative maps.

    It must have the column axis, the last of the result, and no other spatial axes.
    """
    column, extents, used = contraction.column, contraction.extents, weight.axes
    is_plain = all(
        f.constant == 0 and min(f.coefficients.values(), default=0) >= 0
        for f in weight.index_maps
    )
    is_argument = isinstance(weight.buffer.owner, ir.Block)
    is_known = is_plain and min(weight.shape) >= 0
    if not is_argument or not has_one_use(weight.buffer) or not is_known:
        return False
    if column not in used or any(extents[axis] < 0 for axis in used):
        return False
    return not any(contraction.kinds[axis] == "S" and axis != column for axis in used)


def reduction_axes(
    contraction: ContractionBlock, weight: OperandAccess, other: OperandAccess
) -> list[int]:
    """The reduction axes, in the order in which the other operand is read."""
    order = {axis: n for n, f in enumerate(other.index_maps) for axis in f.coefficients}
    found = (axis for axis in weight.axes if axis != contraction.column)
    return sorted(found, key=lambda axis: order.get(axis, -1))


def _packed_layout(program: func.FuncOp, choose: ChooseLayout) -> PackedLayout | None:
    """The packing of a program's only contraction, or None."""
    found = match_contraction(program) if may_permute(program) else None
    if found is None:
        return None
    for weight, other in (found.operands, found.operands[::-1]):
        packed = choose(found, weight, other)
        if packed is not None:
            return packed
    return None


def _rewrite(program: func.FuncOp, packed: PackedLayout) -> None:
    """Makes a program read the packed array."""
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
