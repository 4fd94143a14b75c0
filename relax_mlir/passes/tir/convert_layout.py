"""``tir-convert-layout``: pictures keep their channels side by side where that pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.graphs import constant, users_of
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.channel_costs import Costs, costs_of, count_of
from relax_mlir.passes.tir.permute_buffers import (
    Order,
    may_permute,
    permute_buffers,
    permuted,
)
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import own_operations

__all__ = ["ConvertLayout"]

_SWEEPS = 8  # over all tensors, until no label changes
_PACK = "builtin.unrealized_conversion_cast"

_Made = dict[tuple[ir.Value, bool], ir.Value]  # by the old tensor and a label


@dataclass(frozen=True)
class ConvertLayout(Pass):
    """Reorder tensors so that channels come last where programs run faster for it.

    A convolution whose channels lie side by side is a product of matrices that reads and
    writes vectors of channels; depthwise ones and poolings run on such vectors, too.
    Every tensor between programs gets a label, so that what the programs cost by the
    labels of what they read and write is as little as changes of single labels make it.
    Any program can work on buffers in any order; what must see the old one, as results
    of the model and reshapes do, gets it from a transpose.
    """

    def run(self, module: IRModule) -> None:
        copies = ProgramCopies(module)
        conversion = _Conversion(module, copies)
        for function in copies.functions():
            conversion.run(function)
        copies.drop_unread()


@dataclass
class _Call:
    """A call of a program, and the tensors it reads and writes, the result last."""

    op: CallTirOp
    costs: Costs
    values: Sequence[ir.Value]


class _Graph:
    """The calls of a function whose programs can work in any order.

    Attributes:
        calls: by operation.
        touching: by tensor, the calls that write or read it.
    """

    def __init__(
        self, function: func.FuncOp, programs: Mapping[str, func.FuncOp]
    ) -> None:
        costs: dict[str, Costs | None] = {}
        self.calls: dict[ir.OpView, _Call] = {}
        self.touching: dict[ir.Value, list[_Call]] = {}
        for op in own_operations(function.entry_block):
            if not isinstance(op, CallTirOp):
                continue
            name = op.attributes["callee"].value
            if name not in costs:
                costs[name] = _costs(programs.get(name))
            found = costs[name]
            values = (*tensors.elements(op.args), op.result)
            if found is None or not any(map(_is_picture, values)):
                continue
            self.calls[op] = _Call(op, found, values)
            for value in dict.fromkeys(values):
                self.touching.setdefault(value, []).append(self.calls[op])

    def pictures(self) -> list[ir.Value]:
        """The tensors that may be in another order."""
        return [c.values[-1] for c in self.calls.values() if _is_picture(c.values[-1])]

    def other_readers(self, value: ir.Value) -> list[ir.OpView]:
        """What reads a value and wants the old order."""
        return [op for op in users_of(value) if op not in self.calls]


def _costs(program: func.FuncOp | None) -> Costs | None:
    if program is None or program.attributes["tir.num_outputs"].value != 1:
        return None
    return costs_of(program) if may_permute(program) else None


def _is_picture(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.rank > 2


def _is_constant(value: ir.Value) -> bool:
    return isinstance(value.owner, ConstantOp)


class _Labels:
    """Which tensors of a function have their channels last.

    Attributes:
        last: those that have.
    """

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        values = graph.pictures()
        self._copies = {v: self._cost_of_copy(v) for v in values}
        groups = _groups(values, graph)
        self.last: set[ir.Value] = set()
        for group in groups:
            calls = [c for v in group for c in graph.touching[v]]
            if any(c.costs.pictures for c in calls):
                self.last.update(group)
        for _ in range(_SWEEPS):
            wholes = [g for g in groups if len(g) > 1]
            if not [g for g in (*wholes, *([v] for v in values)) if self._improve(g)]:
                return

    def _cost_of_copy(self, value: ir.Value) -> float:
        """What it costs that something reads the value in the old order."""
        if _is_same_in_memory(value) or not self._graph.other_readers(value):
            return 0.0
        return count_of(tensors.shape_of(value))

    def _improve(self, values: Sequence[ir.Value]) -> bool:
        """Change labels if that makes the whole cheaper."""
        before = self._cost(values)
        self.last.symmetric_difference_update(values)
        if self._cost(values) < before:
            return True
        self.last.symmetric_difference_update(values)
        return False

    def _cost(self, values: Sequence[ir.Value]) -> float:
        """What the programs cost that touch some tensors, and the copies of these."""
        calls = {id(c): c for v in values for c in self._graph.touching[v]}
        copies = sum(self._copies[v] for v in values if v in self.last)
        return copies + sum(map(self._cost_of_call, calls.values()))

    def _cost_of_call(self, call: _Call) -> float:
        own = tuple(value in self.last for value in call.values)
        known = [_is_constant(value) for value in call.values]
        labels = self.of_call(call)
        given = (n if k else o for n, o, k in zip(labels, own, known, strict=True))
        return call.costs.of(tuple(given))

    def of_call(self, call: _Call) -> tuple[bool, ...]:
        """The labels of what a call reads and writes.

        Constants follow the result, and so does what is read beside a sum.
        """
        *inputs, out = call.values
        is_last = out in self.last
        follow = call.costs.along if is_last else ()
        return (
            *(
                is_last
                if number in call.costs.beside
                else value in self.last or (number in follow and _is_constant(value))
                for number, value in enumerate(inputs)
            ),
            is_last,
        )


def _groups(values: Sequence[ir.Value], graph: _Graph) -> list[list[ir.Value]]:
    """Tensors that maps read and write element by element, which go together."""
    group_of: dict[ir.Value, list[ir.Value]] = {v: [v] for v in values}
    for call in graph.calls.values():
        joined = [call.values[i] for i in call.costs.along]
        for value in joined:
            one, other = group_of.get(value), group_of.get(call.values[-1])
            if one is None or other is None or one is other:
                continue
            one.extend(other)
            group_of.update(dict.fromkeys(other, one))
    return list({id(g): g for g in group_of.values()}.values())


def _channels_last(value: ir.Value) -> Order:
    rank = ir.RankedTensorType(value.type).rank
    return (0, *range(2, rank), 1)


def _is_same_in_memory(value: ir.Value) -> bool:
    """Whether the order of the axes does not matter: there is but one beside the batch."""
    _, channels, *sizes = tensors.shape_of(value)
    return channels == 1 or all(size == 1 for size in sizes)


@dataclass
class _Conversion:
    """Rewrites the calls of functions.

    Attributes:
        copies: of programs.
        made: their names by that of the original, and the labels of its buffers.
    """

    module: IRModule
    copies: ProgramCopies
    made: dict[tuple[str, tuple[bool, ...]], str] = field(default_factory=dict)

    def run(self, function: func.FuncOp) -> None:
        """Rewrite one function."""
        graph = _Graph(function, self.copies.programs)
        labels = _Labels(graph)
        new: _Made = {}
        for call in graph.calls.values():
            found = labels.of_call(call)
            if any(found) or not labels.last.isdisjoint(call.values):
                others = graph.other_readers(call.values[-1])
                with ir.InsertionPoint(call.op), call.op.location:
                    self._convert(call, found, others, new)

    def _convert(
        self,
        call: _Call,
        labels: tuple[bool, ...],
        others: Sequence[ir.OpView],
        new: _Made,
    ) -> None:
        """Call a program on tensors in another order.

        Args:
            labels: of what the call reads and writes; others: read its result as it was.
            new: what tensors became; it learns what the result becomes.
        """
        *inputs, out = call.values
        given = [
            self._operand(value, label, new)
            for value, label in zip(inputs, labels, strict=False)
        ]
        is_last = labels[-1]
        made = CallTirOp(
            given,
            callee=self._program(call, labels),
            sizes=call.op.attributes["sizes"],
            results=[_type_in(out, _channels_last(out)) if is_last else out.type],
        )
        new[out, is_last] = made.result
        if not is_last:
            out.replace_all_uses_with(made.result)
        elif others:
            new[out, False] = back = _in_old_order(made.result, out)
            for reader in others:
                _replace_operand(reader, out, back)

    def _operand(self, value: ir.Value, is_last: bool, new: _Made) -> ir.Value:
        """A tensor with its channels where a label says; it is turned if need be."""
        if (value, is_last) not in new:
            if is_last:
                new[value, True] = self._turned(value, new.get((value, False), value))
            elif (value, True) in new:
                new[value, False] = _in_old_order(new[value, True], value)
        return new.get((value, is_last), value)

    def _turned(self, value: ir.Value, made: ir.Value) -> ir.Value:
        """A tensor, of which ``made`` is what it became, with its channels last."""
        order, source = _channels_last(value), value.owner
        if isinstance(source, ConstantOp):
            turned = source.array(self.module.constants).transpose(order)
            key = f"{source.key or 'constant'}.channels_last"
            return constant(self.module, turned, key)
        if _is_same_in_memory(value):
            shape = permuted(tensors.shape_of(value), order)
            return ReshapeOp(made, shape=shape).y
        return PermuteDimsOp(made, axes=order).y

    def _program(self, call: _Call, labels: tuple[bool, ...]) -> str:
        """The program that takes buffers in such orders."""
        name = call.op.attributes["callee"].value
        if not any(labels):
            return name
        if (name, labels) not in self.made:
            orders = {
                number: _channels_last(value)
                for number, value in enumerate(call.values)
                if labels[number]
            }
            copy = self.copies.copy(name)
            permute_buffers(copy, orders)
            self.made[name, labels] = ir.StringAttr(copy.attributes["sym_name"]).value
        return self.made[name, labels]


def _type_in(value: ir.Value, order: Order) -> ir.RankedTensorType:
    shape = permuted(tensors.shape_of(value), order)
    return tensors.tensor_type(shape, tensors.dtype_of(value))


def _in_old_order(value: ir.Value, old: ir.Value) -> ir.Value:
    """A tensor that has its channels last, as it was before."""
    if _is_same_in_memory(old):
        return ReshapeOp(value, shape=tensors.shape_of(old)).y
    rank = len(tensors.shape_of(old))
    return PermuteDimsOp(value, axes=(0, rank - 1, *range(1, rank - 1))).y


def _replace_operand(reader: ir.OpView, old: ir.Value, new: ir.Value) -> None:
    """Let an operation, or what packs its operands, read another value."""
    for number, operand in enumerate(reader.operation.operands):
        if operand == old:
            reader.operation.operands[number] = new
        elif old in _packed(operand):
            parts = [new if v == old else v for v in _packed(operand)]
            with ir.InsertionPoint(reader), reader.location:
                reader.operation.operands[number] = tensors.pack(parts)


def _packed(value: ir.Value) -> list[ir.Value]:
    """What a tuple was packed from; nothing if ``value`` is no such tuple."""
    owner = value.owner
    is_pack = not isinstance(owner, ir.Block) and owner.name == _PACK
    return tensors.elements(value) if is_pack else []
