"""``tir-fuse-padding``: implicit padding (predicated loads) instead of padded copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import OperandAccess, match_contraction
from relax_mlir.analysis.index_maps import affine_form, constant_of
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import only_store, operations_named, own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.passes.tir.permute_buffers import may_permute, set_argument_type
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.rewrite.patterns import Pass, clone, has_one_use
from relax_mlir.schedules.cpu.match_pooling import MAX_TAPS
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["FusePadding"]


@dataclass(frozen=True)
class FusePadding(Pass):
    """Inline padding into the programs that read the padded tensor, where this pays.

    These are depthwise reductions over windows and the programs of ``tir-use-winograd``, whose
    schedules predicate loads outside of the image. Other programs read a padded copy faster on
    CPUs, by loads without predicates; on GPUs, the TMA fills in zeros, and predicates
    are cheap.

    Args:
        products: whether the target is a GPU: fuse into convolutions over all channels, and
            into nothing else.
    """

    products: bool = False

    def run(self, module: IRModule) -> None:
        takes = _gpu_taker if self.products else _cpu_taker
        fusion = _Fusion(PrimFuncCopies(module), takes)
        for call in fusion.copies.calls():
            fusion.fuse(call)
        fusion.copies.erase_dead()


class _Fusion:
    """Inlines padding into its consumers.

    Args:
        takes: the argument of a program whose padding can be inlined.

    Attributes:
        copies: of programs.
    """

    def __init__(
        self, copies: PrimFuncCopies, takes: Callable[[func.FuncOp], _Taker | None]
    ) -> None:
        self.copies, self._takes = copies, takes
        self._pads: dict[str, _Pad | None] = {}
        self._takers: dict[str, _Taker | None] = {}
        self._made: dict[tuple[str, str], str] = {}

    def fuse(self, op: CallTirOp) -> None:
        """Makes a call read the unpadded image, if its operand is the result of a padding."""
        name = op.attributes["callee"].value
        taker = self._taker(name)
        values = tensors.tuple_elements(op.args)
        if taker is None or taker.number >= len(values):
            return
        call = values[taker.number].owner
        if not isinstance(call, CallTirOp):
            return
        pad_name = call.attributes["callee"].value
        pad = self._pad(pad_name)
        if pad is None or not self._has_only_takers(call, pad):
            return
        (values[taker.number],) = tensors.tuple_elements(call.args)
        with ir.InsertionPoint(op), op.location:
            op.operation.operands[0] = tensors.pack_tuple(values)
        fused = self._program(name, taker.number, pad_name, pad)
        op.attributes["callee"] = ir.FlatSymbolRefAttr.get(fused)

    def _has_only_takers(self, call: CallTirOp, pad: _Pad) -> bool:
        """Whether no user needs the padded copy."""
        for reader in users_of(call.result):
            if not isinstance(reader, CallTirOp):
                return False
            taker = self._taker(reader.attributes["callee"].value)
            if taker is None or (taker.wants_zeros and pad.fill != 0):
                return False
            read = [v == call.result for v in tensors.tuple_elements(reader.args)]
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

    def _program(self, name: str, number: int, pad: str, padding: _Pad) -> str:
        if (name, pad) not in self._made:
            copy = self.copies.copy(name)
            _inline_padding(copy, number, self.copies.programs[pad], padding.before)
            fresh = ir.StringAttr(copy.attributes["sym_name"])
            self._made[name, pad] = fresh.value
        return self._made[name, pad]


@dataclass(frozen=True)
class _Pad:
    """The low padding of each dimension, and the padding value."""

    before: Sequence[int]
    fill: float


@dataclass(frozen=True)
class _Taker:
    """An argument whose padding can be inlined, and whether it must be zeros."""

    number: int
    wants_zeros: bool


def _cpu_taker(program: func.FuncOp) -> _Taker | None:
    """The image argument whose padding a CPU program can inline, or None."""
    if not may_permute(program):
        return None
    if attribute_names.WINOGRAD in program.attributes:
        data, *_ = program.attributes[attribute_names.WINOGRAD]
        is_free = has_one_use(program.arguments[data])
        return _Taker(data, wants_zeros=True) if is_free else None
    contraction = match_contraction(program)
    if contraction is None or contraction.column is None:
        return None
    pairs = zip(contraction.kinds, contraction.extents, strict=True)
    if math.prod(extent for kind, extent in pairs if kind == "R") > MAX_TAPS:
        return None
    for read in contraction.operands:
        is_argument = isinstance(read.buffer.owner, ir.Block)
        slides = any(len(form.coefficients) > 1 for form in read.index_maps)
        is_apart = all(
            contraction.column in other.axes for other in contraction.operands
        )
        is_known = min(read.shape) >= 0 and min(contraction.extents) >= 0
        if is_argument and slides and is_apart and is_known and _is_read_once(read):
            return _Taker(ir.BlockArgument(read.buffer).arg_number, wants_zeros=False)
    return None


def _gpu_taker(program: func.FuncOp) -> _Taker | None:
    """The image argument of a convolution for a GPU, or None."""
    contraction = match_contraction(program) if may_permute(program) else None
    if contraction is None or contraction.column is None:
        return None
    for read, other in (contraction.operands, contraction.operands[::-1]):
        is_argument = isinstance(read.buffer.owner, ir.Block)
        slides = any(len(form.coefficients) > 1 for form in read.index_maps)
        is_known = min(read.shape, default=0) >= 0 and min(contraction.extents) >= 0
        has_columns = contraction.column in contraction.roles(read, other).n
        is_free = is_argument and slides and _is_read_once(read)
        if is_free and is_known and has_columns:
            number = ir.BlockArgument(read.buffer).arg_number
            return _Taker(number, wants_zeros=True)
    return None


def _is_read_once(read: OperandAccess) -> bool:
    """Whether nothing else in the program reads the buffer."""
    return has_one_use(read.buffer)


def _padding(program: func.FuncOp) -> _Pad | None:
    """The padding that a program consists of, or None."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    if len(blocks) != 1 or len(program.arguments) != 2 or not may_permute(program):
        return None
    block = blocks[0].body.blocks[0]
    axes = {a: i for i, a in enumerate(block.arguments)}
    store = only_store(block)
    if blocks[0].has_init or "R" in blocks[0].kinds.value or store is None:
        return None
    written = [affine_form(i, axes) for i in list(store.operands)[2:]]
    branch = store.operands[0].owner
    if isinstance(branch, ir.Block) or branch.name != "scf.if":
        return None
    if [f.single_variable if f else None for f in written] != list(range(len(axes))):
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
    read_maps = [affine_form(i, axes) for i in list(read.operands)[1:]]
    known = [f for f in read_maps if f is not None]
    is_shifted = len(known) == len(axes) and all(
        f.coefficients == {axis: 1} and f.constant <= 0 for axis, f in enumerate(known)
    )
    sizes = list(ir.MemRefType(read.operands[0].type).shape)
    if not is_shifted or min(sizes) < 0:
        return None
    conditions = _conditions(branch.operands[0], axes)
    if conditions is None or not all(
        _is_bounds_check(c, known, sizes) for c in conditions
    ):
        return None
    before = [-form.constant for form in known]
    return _Pad(before, float(fill.attributes["value"].value))


_Condition = tuple[
    int, AffineForm[int], int
]  # a predicate of arith.cmpi and its operands
_AT_LEAST, _LESS = 5, 2  # signed


def _conditions(
    value: ir.Value, axes: Mapping[ir.Value, int]
) -> list[_Condition] | None:
    """The conjunction of comparisons that a value is; None if it is anything else."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "arith.andi":
        both = [_conditions(operand, axes) for operand in owner.operands]
        known = [c for c in both if c is not None]
        return [*known[0], *known[1]] if len(known) == 2 else None
    if owner.name != "arith.cmpi":
        return None
    form, bound = affine_form(owner.operands[0], axes), constant_of(owner.operands[1])
    if form is None or bound is None:
        return None
    return [(owner.attributes["predicate"].value, form, bound)]


def _is_bounds_check(
    condition: _Condition, maps: Sequence[AffineForm[int]], sizes: Sequence[int]
) -> bool:
    """Whether a condition is a bounds check of an index."""
    predicate, map_, bound = condition
    if map_ not in maps:
        return False
    size = sizes[maps.index(map_)]
    return (predicate, bound) in ((_AT_LEAST, 0), (_LESS, size))


def _inline_padding(
    program: func.FuncOp, number: int, pad: func.FuncOp, before: Sequence[int]
) -> None:
    """Replaces an argument by a buffer that the program pads itself."""
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
                made.attributes[attribute_names.PAD] = ir.DenseI64ArrayAttr.get(
                    list(before)
                )
    type_ = ir.MemRefType(source.type)
    set_argument_type(program, number, type_, list(type_.shape))


def _writes(block: BlockOp, buffer: ir.Value) -> bool:
    stores = operations_named(block.body.blocks[0], "memref.store")
    return any(store.operands[1] == buffer for store in stores)
