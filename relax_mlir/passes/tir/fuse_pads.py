"""``tir-fuse-pads``: windows read what is outside of a picture without a padded copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, marks
from relax_mlir.graphs import users_of
from relax_mlir.indexing import Linear, constant_of, linear_in
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.permute_buffers import may_permute, set_argument_type
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.passes.tir.sums import Read, sum_of_products
from relax_mlir.rewriting import Pass, clone, is_read_once
from relax_mlir.schedules.cpu.windows_plan import MOST_TAPS
from relax_mlir.traversal import named, only_store, own_operations

__all__ = ["FusePads"]


@dataclass(frozen=True)
class FusePads(Pass):
    """Write a pad into the programs that read its result, where these have a use for it.

    They are the sums over windows that leave channels apart, and those of
    ``tir-use-winograd``: their schedules tell what is outside from what is inside by the
    place. For others a copy is better, whose windows are plain reads; not so on GPUs, where
    the copy engine brings zeros from outside, and threads have a test to spare.

    Args:
        products: whether the programs are those of GPUs: sums over windows of all
            channels, and no others.
    """

    products: bool = False

    def run(self, module: IRModule) -> None:
        takes = _multiplied if self.products else _picture
        fusion = _Fusion(ProgramCopies(module), takes)
        for call in fusion.copies.calls():
            fusion.reader(call)
        fusion.copies.drop_unread()


class _Fusion:
    """Fuses pads into the calls that read them.

    Args:
        takes: which pad a program takes.

    Attributes:
        copies: of programs.
    """

    def __init__(
        self, copies: ProgramCopies, takes: Callable[[func.FuncOp], _Taker | None]
    ) -> None:
        self.copies, self._takes = copies, takes
        self._pads: dict[str, _Pad | None] = {}
        self._takers: dict[str, _Taker | None] = {}
        self._made: dict[tuple[str, str], str] = {}

    def reader(self, op: CallTirOp) -> None:
        """Let a call read the picture itself, if what it reads is the result of a pad."""
        name = op.attributes["callee"].value
        taker = self._taker(name)
        values = tensors.elements(op.args)
        if taker is None or taker.number >= len(values):
            return
        call = values[taker.number].owner
        if not isinstance(call, CallTirOp):
            return
        pad_name = call.attributes["callee"].value
        pad = self._pad(pad_name)
        if pad is None or not self._all_take(call, pad):
            return
        (values[taker.number],) = tensors.elements(call.args)
        with ir.InsertionPoint(op), op.location:
            op.operation.operands[0] = tensors.pack(values)
        fused = self._program(name, taker.number, pad_name, pad)
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(fused)

    def _all_take(self, call: CallTirOp, pad: _Pad) -> bool:
        """Whether nobody needs the padded copy."""
        for reader in users_of(call.result):
            if not isinstance(reader, CallTirOp):
                return False
            taker = self._taker(reader.attributes["callee"].value)
            if taker is None or (taker.wants_zeros and pad.fill != 0):
                return False
            read = [v == call.result for v in tensors.elements(reader.args)]
            if sum(read) != 1 or not read[taker.number]:
                return False
        return True

    def _pad(self, name: str) -> _Pad | None:
        if name not in self._pads:
            program = self.copies.programs.get(name)
            self._pads[name] = None if program is None else _padding(program)
        return self._pads[name]

    def _taker(self, name: str) -> _Taker | None:
        if name not in self._takers:
            program = self.copies.programs.get(name)
            self._takers[name] = None if program is None else self._takes(program)
        return self._takers[name]

    def _program(self, name: str, number: int, pad: str, how: _Pad) -> str:
        if (name, pad) not in self._made:
            copy = self.copies.copy(name)
            _write_in(copy, number, self.copies.programs[pad], how.before)
            fresh = ir.StringAttr(copy.attributes["sym_name"])
            self._made[name, pad] = fresh.value
        return self._made[name, pad]


@dataclass(frozen=True)
class _Pad:
    """What a program puts before its input along each dimension, and which number."""

    before: Sequence[int]
    fill: float


@dataclass(frozen=True)
class _Taker:
    """The argument whose pad a program takes, and whether it must be of zeros."""

    number: int
    wants_zeros: bool


def _picture(program: func.FuncOp) -> _Taker | None:
    """The picture whose pad a program takes; None if it takes none."""
    if not may_permute(program):
        return None
    if marks.WINOGRAD in program.attributes:
        data, *_ = program.attributes[marks.WINOGRAD]
        is_free = is_read_once(program.arguments[data])
        return _Taker(data, wants_zeros=True) if is_free else None
    total = sum_of_products(program)
    if total is None or total.column is None:
        return None
    pairs = zip(total.kinds, total.extents, strict=True)
    if math.prod(extent for kind, extent in pairs if kind == "R") > MOST_TAPS:
        return None
    for read in total.factors:
        is_argument = isinstance(read.buffer.owner, ir.Block)
        slides = any(len(form.coefficients) > 1 for form in read.forms)
        is_apart = all(total.column in other.axes for other in total.factors)
        is_known = min(read.shape) >= 0 and min(total.extents) >= 0
        if is_argument and slides and is_apart and is_known and _is_read_once(read):
            return _Taker(ir.BlockArgument(read.buffer).arg_number, wants_zeros=False)
    return None


def _multiplied(program: func.FuncOp) -> _Taker | None:
    """The picture of a product on a GPU; None if it is none."""
    total = sum_of_products(program) if may_permute(program) else None
    if total is None or total.column is None:
        return None
    for read, other in (total.factors, total.factors[::-1]):
        is_argument = isinstance(read.buffer.owner, ir.Block)
        slides = any(len(form.coefficients) > 1 for form in read.forms)
        is_known = min(read.shape, default=0) >= 0 and min(total.extents) >= 0
        has_columns = total.column in other.axes and total.column not in read.axes
        is_free = is_argument and slides and _is_read_once(read)
        if is_free and is_known and has_columns:
            number = ir.BlockArgument(read.buffer).arg_number
            return _Taker(number, wants_zeros=True)
    return None


def _is_read_once(read: Read) -> bool:
    """Whether nothing else in a program reads a buffer, which would be the padded one."""
    return is_read_once(read.buffer)


def _padding(program: func.FuncOp) -> _Pad | None:
    """How a program pads its input, if that is all it does."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    if len(blocks) != 1 or len(program.arguments) != 2 or not may_permute(program):
        return None
    block = blocks[0].body.blocks[0]
    axes = {a: i for i, a in enumerate(block.arguments)}
    store = only_store(block)
    if blocks[0].has_init or "R" in blocks[0].kinds.value or store is None:
        return None
    places = [linear_in(i, axes) for i in list(store.operands)[2:]]
    branch = store.operands[0].owner
    if isinstance(branch, ir.Block) or branch.name != "scf.if":
        return None
    if [f.single_axis if f else None for f in places] != list(range(len(axes))):
        return None
    inside, outside = (
        list(own_operations(region.blocks[0])) for region in branch.regions
    )
    read = inside[-1].operands[0].owner
    fill = outside[-1].operands[0].owner
    if isinstance(read, ir.Block) or read.name != "memref.load":
        return None
    if isinstance(fill, ir.Block) or fill.name != "arith.constant":
        return None
    forms = [linear_in(i, axes) for i in list(read.operands)[1:]]
    known = [f for f in forms if f is not None]
    is_shifted = len(known) == len(axes) and all(
        f.coefficients == {axis: 1} and f.constant <= 0 for axis, f in enumerate(known)
    )
    sizes = list(ir.MemRefType(read.operands[0].type).shape)
    if not is_shifted or min(sizes) < 0:
        return None
    conditions = _conditions(branch.operands[0], axes)
    if conditions is None or not all(_is_bound(c, known, sizes) for c in conditions):
        return None
    before = [-form.constant for form in known]
    return _Pad(before, float(fill.attributes["value"].value))


_Condition = tuple[int, Linear, int]  # a predicate of arith.cmpi, and what it compares
_AT_LEAST, _LESS = 5, 2  # signed


def _conditions(
    value: ir.Value, axes: Mapping[ir.Value, int]
) -> list[_Condition] | None:
    """The comparisons that must all hold; None if it is not as plain as that."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "arith.andi":
        both = [_conditions(operand, axes) for operand in owner.operands]
        known = [c for c in both if c is not None]
        return [*known[0], *known[1]] if len(known) == 2 else None
    if owner.name != "arith.cmpi":
        return None
    form, bound = linear_in(owner.operands[0], axes), constant_of(owner.operands[1])
    if form is None or bound is None:
        return None
    return [(owner.attributes["predicate"].value, form, bound)]


def _is_bound(
    condition: _Condition, forms: Sequence[Linear], sizes: Sequence[int]
) -> bool:
    """Whether a condition only says that an index is inside."""
    predicate, form, bound = condition
    if form not in forms:
        return False
    size = sizes[forms.index(form)]
    return (predicate, bound) in ((_AT_LEAST, 0), (_LESS, size))


def _write_in(
    program: func.FuncOp, number: int, pad: func.FuncOp, before: Sequence[int]
) -> None:
    """Let a program pad an argument by itself."""
    argument = program.arguments[number]
    padded = ir.MemRefType(argument.type)
    source, target = pad.arguments
    with ir.InsertionPoint.at_block_begin(program.entry_block), pad.location:
        buffer = ir.Operation.create(
            AllocBufferOp.OPERATION_NAME,
            results=[padded],
            attributes={"shape": tensors.shape_attr(list(padded.shape))},
        ).results[0]
        argument.replace_all_uses_with(buffer)
        mapping = {source: argument, target: buffer}
        for op in list(own_operations(pad.entry_block))[:-1]:
            clone(op, mapping)
            if isinstance(op, BlockOp):
                copied = list(own_operations(program.entry_block))
                (made,) = (
                    o for o in copied if isinstance(o, BlockOp) and _writes(o, buffer)
                )
                made.attributes[marks.PAD] = ir.DenseI64ArrayAttr.get(list(before))
    type_ = ir.MemRefType(source.type)
    set_argument_type(program, number, type_, list(type_.shape))


def _writes(block: BlockOp, buffer: ir.Value) -> bool:
    stores = named(block.body.blocks[0], "memref.store")
    return any(store.operands[1] == buffer for store in stores)
