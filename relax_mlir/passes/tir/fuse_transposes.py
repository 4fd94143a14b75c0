"""``tir-fuse-transposes``: programs read, or write, what a transpose would copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.graphs import users_of
from relax_mlir.indexing import linear_in
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.permute_buffers import (
    Order,
    inverse,
    may_permute,
    permute_buffers,
    permuted,
    widen_argument,
)
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.passes.tir.sums import sums_of_products
from relax_mlir.programs import argument_shape
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import named, only_store, own_operations

__all__ = ["FuseTransposes"]


@dataclass(frozen=True)
class FuseTransposes(Pass):
    """Drop transposes that programs can do without.

    Where the last dimension stays, what lies side by side stays side by side, so a program
    can as well write its result in the order after the transpose, if nothing else reads
    it, or read its operand in the order before it: only the order of indices changes. A
    contraction whose columns are transposed reads them so, too: it copies them into
    panels anyway. A map that transposes for such contractions alone does not, for them.

    Args:
        parts: drop what copies a part of a tensor, too, perhaps transposed: programs read
            it where it is. Once layouts are chosen, which a part would have to share.
    """

    parts: bool = False

    def run(self, module: IRModule) -> None:
        fusion = _Fusion(ProgramCopies(module), takes_parts=self.parts)
        for call in fusion.copies.calls():
            fusion.transpose(call)
        fusion.copies.drop_unread()


class _Fusion:
    """Fuses transposes into the calls before or after them.

    Args:
        takes_parts: whether parts of tensors are read where they are.

    Attributes:
        copies: of programs.
    """

    def __init__(self, copies: ProgramCopies, *, takes_parts: bool) -> None:
        self.copies, self._takes_parts = copies, takes_parts
        self._turns: dict[str, _Turn | None] = {}
        self._versions: dict[tuple[str, int, Order, _Part | None], str] = {}

    def transpose(self, call: CallTirOp) -> None:
        """Drop a call, if it only transposes, and those beside it can do without."""
        turn = self._turn(call)
        if turn is None:
            return
        order = turn.order
        if turn.part is not None:
            self._read_part(call, turn)
            return
        if not turn.is_copy:
            self._write_as_read(call, order)
            return
        (source,) = tensors.elements(call.args)
        producer, is_alone = source.owner, list(users_of(source)) == [call]
        may_write = isinstance(producer, CallTirOp) and self._may_change(producer)
        if may_write and is_alone and _keeps_last(order):
            self._write_in_order(producer, call, order)
            return
        for reader in self._readers(call, order):
            self._read_in_order(reader, call, source, order)

    def _turn(self, call: CallTirOp) -> _Turn | None:
        name = call.attributes["callee"].value
        if name not in self._turns:
            program = self.copies.called(call)
            turn = None if program is None else _turn_of(program)
            is_part = turn is not None and turn.part is not None
            self._turns[name] = turn if is_part == self._takes_parts else None
        return self._turns[name]

    def _read_part(self, call: CallTirOp, turn: _Turn) -> None:
        """Let all that reads a part read it where it is."""
        (source,) = tensors.elements(call.args)
        for reader in self._readers(call, turn.order):
            self._read_in_order(reader, call, source, turn.order, turn.part)

    def _readers(self, call: CallTirOp, order: Order) -> list[CallTirOp]:
        """What reads a result, if all of it may as well read what is not transposed."""
        readers = list(users_of(call.result))
        found = [r for r in readers if isinstance(r, CallTirOp)]
        may = all(self._may_read(reader, call, order) for reader in found)
        return found if may and len(found) == len(readers) else []

    def _write_as_read(self, call: CallTirOp, order: Order) -> None:
        """Let a map keep the order of what it reads, if that changes what lies last."""
        readers = [] if _keeps_last(order) else self._readers(call, order)
        if not readers:
            return
        given, before = tensors.elements(call.args), inverse(order)
        shape = permuted(tensors.shape_of(call.result), before)
        with ir.InsertionPoint(call), call.location:
            made = CallTirOp(
                given,
                callee=self._version(call, len(given), before),
                sizes=call.attributes["sizes"],
                results=[tensors.tensor_type(shape, tensors.dtype_of(call.result))],
            )
        for reader in readers:
            self._read_in_order(reader, call, made.result, order)

    def _may_change(self, call: CallTirOp) -> bool:
        program = self.copies.called(call)
        if program is None or not may_permute(program):
            return False
        return program.attributes["tir.num_outputs"].value == 1

    def _may_read(self, reader: CallTirOp, call: CallTirOp, order: Order) -> bool:
        given = [value == call.result for value in tensors.elements(reader.args)]
        if sum(given) != 1 or not self._may_change(reader):
            return False
        program = self.copies.called(reader)
        assert program is not None
        number = given.index(True)
        return _keeps_last(order) or _packs_columns(program, number, order)

    def _write_in_order(
        self, producer: CallTirOp, call: CallTirOp, order: Order
    ) -> None:
        given = tensors.elements(producer.args)
        with ir.InsertionPoint(producer), producer.location:
            made = CallTirOp(
                given,
                callee=self._version(producer, len(given), order),
                sizes=producer.attributes["sizes"],
                results=[call.result.type],
            )
        call.result.replace_all_uses_with(made.result)

    def _read_in_order(
        self,
        reader: CallTirOp,
        call: CallTirOp,
        source: ir.Value,
        order: Order,
        part: _Part | None = None,
    ) -> None:
        given = tensors.elements(reader.args)
        number = given.index(call.result)
        given[number] = source
        with ir.InsertionPoint(reader), reader.location:
            made = CallTirOp(
                given,
                callee=self._version(reader, number, inverse(order), part),
                sizes=reader.attributes["sizes"],
                results=[reader.result.type],
            )
        reader.result.replace_all_uses_with(made.result)

    def _version(
        self, call: CallTirOp, number: int, order: Order, part: _Part | None = None
    ) -> str:
        """The program of a call, with the dimensions of a buffer in another order.

        Args:
            part: which that buffer then is, of the one that is given.
        """
        key = call.attributes["callee"].value, number, order, part
        if key not in self._versions:
            copy = self.copies.copy(key[0])
            permute_buffers(copy, {number: order})
            if part is not None:
                shape = list(argument_shape(copy, number))
                for place, size in part.sizes:
                    shape[place] = size
                widen_argument(copy, number, part.begins, shape)
            name = ir.StringAttr(copy.attributes["sym_name"]).value
            self._versions[key] = name
            self.copies.programs[name] = copy  # another transpose may follow
        return self._versions[key]


def _keeps_last(order: Order) -> bool:
    """Whether the last dimension stays in place."""
    return order[-1] == len(order) - 1


def _packs_columns(program: func.FuncOp, number: int, order: Order) -> bool:
    """Whether an argument holds the columns of a contraction, their terms side by side.

    Args:
        order: which dimension, before a transpose, each of the argument is.
    """
    argument = program.arguments[number]
    blocks = {use.owner.operation.block for use in argument.uses}
    totals = [
        total
        for total in sums_of_products(program)
        if {total.block.body.blocks[0]} == blocks
    ]
    if len(totals) != 1 or totals[0].column is None:
        return False
    (total,) = totals
    read, other = sorted(total.factors, key=lambda f: f.buffer != argument)
    if read.buffer != argument or other.buffer == argument:
        return False
    side_by_side = read.forms[order.index(len(order) - 1)].single_axis
    is_term = side_by_side is not None and total.kinds[side_by_side] == "R"
    return is_term and total.column in read.axes and total.column not in other.axes


@dataclass(frozen=True)
class _Part:
    """Which part of a buffer is read.

    Attributes:
        begins: where it begins in each dimension.
        sizes: those of the buffer that differ from the part's, by dimension.
    """

    begins: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Turn:
    """What a program of one input does that transposes it, or takes a part of it.

    Attributes:
        order: which dimension of the input each of the result is.
        is_copy: whether that is all; else elements are mapped on their way.
        part: which part of the input it copies; None for all of it.
    """

    order: Order
    is_copy: bool
    part: _Part | None = None


def _turn_of(program: func.FuncOp) -> _Turn | None:
    """How a program transposes what it reads; None if it does not, or does more."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    buffers = [a for a in program.arguments if isinstance(a.type, ir.MemRefType)]
    if len(blocks) != 1 or len(buffers) != 2 or blocks[0].has_init:
        return None
    body = blocks[0].body.blocks[0]
    axes = {a: i for i, a in enumerate(body.arguments)}
    store, loads = only_store(body), named(body, "memref.load")
    if store is None or "R" in blocks[0].kinds.value or not may_permute(program):
        return None
    if len(loads) != 1 or loads[0].operation.block != body:
        return None
    (load,) = loads
    if [load.operands[0], store.operands[1]] != buffers:
        return None
    written = _axes_from(list(store.operands)[2:], axes)
    read = _axes_from(list(load.operands)[1:], axes)
    if written is None or read is None or any(begin for _, begin in written):
        return None
    results, sources = [axis for axis, _ in written], [axis for axis, _ in read]
    if sorted(results) != sorted(sources) or len(set(sources)) != len(sources):
        return None
    order = tuple(sources.index(axis) for axis in results)
    is_copy = store.operands[0] == load.results[0]
    before, after = (argument_shape(program, number) for number in range(2))
    sizes = permuted(after, inverse(order))
    begins = tuple(begin for _, begin in read)
    if list(before) != sizes or any(begins):
        part = _part(before, sizes, begins)
        return _Turn(order, is_copy, part) if is_copy and part is not None else None
    return None if order == tuple(range(len(order))) else _Turn(order, is_copy)


def _part(
    before: Sequence[Dim], sizes: Sequence[Dim], begins: tuple[int, ...]
) -> _Part | None:
    """The part of so many elements of a buffer; None if its sizes are not known."""
    cut = [
        (place, whole)
        for place, (whole, size) in enumerate(zip(before, sizes, strict=True))
        if whole != size
    ]
    known = tuple((place, whole) for place, whole in cut if isinstance(whole, int))
    return _Part(begins, known) if len(known) == len(cut) else None


def _axes_from(
    indices: Sequence[ir.Value], axes: dict[ir.Value, int]
) -> list[tuple[int, int]] | None:
    """The axis that each index is, and where it begins; None if one is anything else."""
    found = []
    for index in indices:
        form = linear_in(index, axes)
        if form is None or list(form.coefficients.values()) != [1] or form.constant < 0:
            return None
        found.append((next(iter(form.coefficients)), form.constant))
    return found
