"""``tir-fuse-transposes``: folds transposes and slices into producers and consumers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import match_contractions
from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import only_store, operations_named, own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.passes.tir.permute_buffers import (
    AxisOrder,
    inverse_permutation,
    may_permute,
    permute_buffers,
    permute_items,
    slice_argument,
)
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.rewrite.patterns import Pass

__all__ = ["FuseTransposes"]


@dataclass(frozen=True)
class FuseTransposes(Pass):
    """Fold transposes into the programs before or after them.

    A transpose that keeps the last dimension keeps accesses contiguous: the producer can store
    in the transposed order, if nothing else reads its result, or the consumer can load from the
    untransposed tensor; only index orders change. A contraction whose RHS columns are
    transposed also reads them untransposed, since it packs them into panels anyway. An
    elementwise program that transposes for such contractions only keeps the order of its input.

    Args:
        parts: also fold slices, with or without a transpose: consumers load from the whole
            tensor. Run after layout assignment, since a slice must share its layout.
    """

    parts: bool = False

    def run(self, module: IRModule) -> None:
        fusion = _Fusion(PrimFuncCopies(module), takes_parts=self.parts)
        for call in fusion.copies.calls():
            fusion.transpose(call)
        fusion.copies.erase_dead()


class _Fusion:
    """Folds transposes into the calls before or after them.

    Args:
        takes_parts: whether slices are folded.

    Attributes:
        copies: of programs.
    """

    def __init__(self, copies: PrimFuncCopies, *, takes_parts: bool) -> None:
        self.copies, self._takes_parts = copies, takes_parts
        self._transposes: dict[str, _Transpose | None] = {}
        self._versions: dict[tuple[str, int, AxisOrder, _Part | None], str] = {}

    def transpose(self, call: CallTirOp) -> None:
        """Folds a call that only transposes or slices into its producer or consumers."""
        transpose = self._matched(call)
        if transpose is None:
            return
        order = transpose.order
        if transpose.part is not None:
            self._read_part(call, transpose)
            return
        if not transpose.is_copy:
            self._write_as_read(call, order)
            return
        (source,) = tensors.tuple_elements(call.args)
        producer, is_alone = source.owner, list(users_of(source)) == [call]
        may_write = isinstance(producer, CallTirOp) and self._may_change(producer)
        if may_write and is_alone and _keeps_last(order):
            self._write_in_order(producer, call, order)
            return
        for reader in self._readers(call, order):
            self._read_in_order(reader, call, source, order)

    def _matched(self, call: CallTirOp) -> _Transpose | None:
        name = call.attributes["callee"].value
        if name not in self._transposes:
            program = self.copies.callee(call)
            transpose = None if program is None else _match_transpose(program)
            is_part = transpose is not None and transpose.part is not None
            self._transposes[name] = transpose if is_part == self._takes_parts else None
        return self._transposes[name]

    def _read_part(self, call: CallTirOp, transpose: _Transpose) -> None:
        """Makes all consumers of a slice load from the whole tensor."""
        (source,) = tensors.tuple_elements(call.args)
        for reader in self._readers(call, transpose.order):
            self._read_in_order(reader, call, source, transpose.order, transpose.part)

    def _readers(self, call: CallTirOp, order: AxisOrder) -> list[CallTirOp]:
        """The users of a result, if all of them can read the untransposed tensor; else none."""
        readers = list(users_of(call.result))
        found = [r for r in readers if isinstance(r, CallTirOp)]
        may = all(self._may_read(reader, call, order) for reader in found)
        return found if may and len(found) == len(readers) else []

    def _write_as_read(self, call: CallTirOp, order: AxisOrder) -> None:
        """Makes an elementwise program keep its input's axis order, if it moves the last axis."""
        readers = [] if _keeps_last(order) else self._readers(call, order)
        if not readers:
            return
        given, before = tensors.tuple_elements(call.args), inverse_permutation(order)
        shape = permute_items(tensors.shape_of(call.result), before)
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
        program = self.copies.callee(call)
        if program is None or not may_permute(program):
            return False
        return program.attributes["tir.num_outputs"].value == 1

    def _may_read(self, reader: CallTirOp, call: CallTirOp, order: AxisOrder) -> bool:
        given = [value == call.result for value in tensors.tuple_elements(reader.args)]
        if sum(given) != 1 or not self._may_change(reader):
            return False
        program = self.copies.callee(reader)
        assert program is not None
        number = given.index(True)
        return _keeps_last(order) or _packs_columns(program, number, order)

    def _write_in_order(
        self, producer: CallTirOp, call: CallTirOp, order: AxisOrder
    ) -> None:
        given = tensors.tuple_elements(producer.args)
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
        order: AxisOrder,
        part: _Part | None = None,
    ) -> None:
        given = tensors.tuple_elements(reader.args)
        number = given.index(call.result)
        given[number] = source
        with ir.InsertionPoint(reader), reader.location:
            made = CallTirOp(
                given,
                callee=self._version(reader, number, inverse_permutation(order), part),
                sizes=reader.attributes["sizes"],
                results=[reader.result.type],
            )
        reader.result.replace_all_uses_with(made.result)

    def _version(
        self, call: CallTirOp, number: int, order: AxisOrder, part: _Part | None = None
    ) -> str:
        """The name of a copy of a call's program with the dimensions of one buffer permuted.

        Args:
            part: the slice of the tensor now passed that the buffer was before.
        """
        key = call.attributes["callee"].value, number, order, part
        if key not in self._versions:
            copy = self.copies.copy(key[0])
            permute_buffers(copy, {number: order})
            if part is not None:
                shape = list(argument_shape(copy, number))
                for place, size in part.sizes:
                    shape[place] = size
                slice_argument(copy, number, part.begins, shape)
            name = ir.StringAttr(copy.attributes["sym_name"]).value
            self._versions[key] = name
            self.copies.programs[name] = copy  # another transpose may follow
        return self._versions[key]


def _keeps_last(order: AxisOrder) -> bool:
    """Whether the last dimension stays in place."""
    return order[-1] == len(order) - 1


def _packs_columns(program: func.FuncOp, number: int, order: AxisOrder) -> bool:
    """Whether an argument is the RHS of a contraction, contiguous along the reduction (K).

    Args:
        order: the dimension, before a transpose, of each dimension of the argument.
    """
    argument = program.arguments[number]
    blocks = {use.owner.operation.block for use in argument.uses}
    found = [
        contraction
        for contraction in match_contractions(program)
        if {contraction.block.body.blocks[0]} == blocks
    ]
    if len(found) != 1 or found[0].column is None:
        return False
    (contraction,) = found
    read, other = sorted(contraction.operands, key=lambda f: f.buffer != argument)
    if read.buffer != argument or other.buffer == argument:
        return False
    contiguous = read.index_maps[order.index(len(order) - 1)].single_variable
    is_k_major = contiguous is not None and contraction.kinds[contiguous] == "R"
    return is_k_major and contraction.column in contraction.roles(other, read).n


@dataclass(frozen=True)
class _Part:
    """A slice of a buffer.

    Attributes:
        begins: offset in each dimension.
        sizes: those of the buffer that differ from the slice's, by dimension.
    """

    begins: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Transpose:
    """The transpose or slice that a program of one input performs.

    Attributes:
        order: the input dimension of each dimension of the result.
        is_copy: whether the program only copies; otherwise it also computes elementwise.
        part: the slice of the input that it copies; None for all of it.
    """

    order: AxisOrder
    is_copy: bool
    part: _Part | None = None


def _match_transpose(program: func.FuncOp) -> _Transpose | None:
    """Matches a program that transposes or slices its input; None for others."""
    blocks = [o for o in own_operations(program.entry_block) if isinstance(o, BlockOp)]
    buffers = [a for a in program.arguments if isinstance(a.type, ir.MemRefType)]
    if len(blocks) != 1 or len(buffers) != 2 or blocks[0].has_init:
        return None
    body = blocks[0].body.blocks[0]
    axes = {a: i for i, a in enumerate(body.arguments)}
    store, loads = only_store(body), operations_named(body, "memref.load")
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
    sizes = permute_items(after, inverse_permutation(order))
    begins = tuple(begin for _, begin in read)
    if list(before) != sizes or any(begins):
        part = _part(before, sizes, begins)
        return (
            _Transpose(order, is_copy, part) if is_copy and part is not None else None
        )
    return None if order == tuple(range(len(order))) else _Transpose(order, is_copy)


def _part(
    before: Sequence[Dim], sizes: Sequence[Dim], begins: tuple[int, ...]
) -> _Part | None:
    """The slice of a buffer; None if a sliced dimension is not static."""
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
    """The axis and offset of each index; None if an index is not an axis plus a constant."""
    found = []
    for index in indices:
        form = affine_form(index, axes)
        if form is None or list(form.coefficients.values()) != [1] or form.constant < 0:
            return None
        found.append((next(iter(form.coefficients)), form.constant))
    return found
