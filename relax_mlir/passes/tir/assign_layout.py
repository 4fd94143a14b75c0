"""``tir-assign-layout``: layout assignment, channels first or last (NCHW or NHWC), by cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.passes.tir.layout_cost import (
    LayoutCosts,
    estimated_elements,
    layout_costs,
)
from relax_mlir.passes.tir.permute_buffers import (
    AxisOrder,
    may_permute,
    permute_buffers,
    permute_items,
)
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.rewrite.functions import pooled_constant
from relax_mlir.rewrite.patterns import Pass

__all__ = ["AssignLayout"]

_SWEEPS = 8  # of local search over all tensors, at most

_Converted = dict[tuple[ir.Value, bool], ir.Value]  # by old tensor and channels last


@dataclass(frozen=True)
class AssignLayout(Pass):
    """Assign channels-last layouts to feature maps where the cost model predicts a gain.

    A convolution on channels-last feature maps is a matmul that loads and stores vectors of
    channels; depthwise convolutions and poolings vectorize over channels, too. Every tensor
    between programs gets a layout; a local search that flips single layouts minimises the
    total cost of the programs. Any program can be rewritten for any order of dimensions; users
    that need the old one, such as returns and reshapes, get it through a transpose.
    """

    def run(self, module: IRModule) -> None:
        copies = PrimFuncCopies(module)
        conversion = _Conversion(module, copies)
        for function in copies.functions():
            conversion.run(function)
        copies.erase_dead()


@dataclass
class _Call:
    """A call of a program, and the tensors it reads and writes, the result last."""

    op: CallTirOp
    costs: LayoutCosts
    values: Sequence[ir.Value]


class _Graph:
    """The calls of a function whose programs can be rewritten for any layout.

    Attributes:
        calls: by operation.
        accesses: by tensor, the calls that write or read it.
    """

    def __init__(
        self, function: func.FuncOp, programs: Mapping[str, func.FuncOp]
    ) -> None:
        costs: dict[str, LayoutCosts | None] = {}
        self.calls: dict[ir.OpView, _Call] = {}
        self.accesses: dict[ir.Value, list[_Call]] = {}
        for op in own_operations(function.entry_block):
            if not isinstance(op, CallTirOp):
                continue
            name = op.attributes["callee"].value
            if name not in costs:
                costs[name] = _costs(programs.get(name))
            found = costs[name]
            values = (*tensors.tuple_elements(op.args), op.result)
            if found is None or not any(map(_is_image, values)):
                continue
            self.calls[op] = _Call(op, found, values)
            for value in dict.fromkeys(values):
                self.accesses.setdefault(value, []).append(self.calls[op])

    def images(self) -> list[ir.Value]:
        """The tensors whose layout may change."""
        return [c.values[-1] for c in self.calls.values() if _is_image(c.values[-1])]

    def other_readers(self, value: ir.Value) -> list[ir.OpView]:
        """The users of a value that need the old layout."""
        return [op for op in users_of(value) if op not in self.calls]


def _costs(program: func.FuncOp | None) -> LayoutCosts | None:
    if program is None or program.attributes["tir.num_outputs"].value != 1:
        return None
    return layout_costs(program) if may_permute(program) else None


def _is_image(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.rank > 2


def _is_constant(value: ir.Value) -> bool:
    return isinstance(value.owner, ConstantOp)


class _LayoutSearch:
    """The layout of each tensor of a function, by local search.

    Attributes:
        last: the tensors with channels last.
    """

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        values = graph.images()
        self._copies = {v: self._cost_of_copy(v) for v in values}
        groups = _groups(values, graph)
        self.last: set[ir.Value] = set()
        for group in groups:
            calls = [c for v in group for c in graph.accesses[v]]
            if any(c.costs.images for c in calls):
                self.last.update(group)
        for _ in range(_SWEEPS):
            wholes = [g for g in groups if len(g) > 1]
            if not [g for g in (*wholes, *([v] for v in values)) if self._improve(g)]:
                return

    def _cost_of_copy(self, value: ir.Value) -> float:
        """The cost of a transpose for users that need the old layout."""
        if _is_same_in_memory(value) or not self._graph.other_readers(value):
            return 0.0
        return estimated_elements(tensors.shape_of(value))

    def _improve(self, values: Sequence[ir.Value]) -> bool:
        """Flips the layout of some tensors if that lowers the cost."""
        before = self._cost(values)
        self.last.symmetric_difference_update(values)
        if self._cost(values) < before:
            return True
        self.last.symmetric_difference_update(values)
        return False

    def _cost(self, values: Sequence[ir.Value]) -> float:
        """The cost of all programs that touch some tensors, and of the tensors' transposes."""
        calls = {id(c): c for v in values for c in self._graph.accesses[v]}
        copies = sum(self._copies[v] for v in values if v in self.last)
        return copies + sum(map(self._cost_of_call, calls.values()))

    def _cost_of_call(self, call: _Call) -> float:
        own = tuple(value in self.last for value in call.values)
        known = [_is_constant(value) for value in call.values]
        layouts = self.of_call(call)
        given = (n if k else o for n, o, k in zip(layouts, own, known, strict=True))
        return call.costs.of(tuple(given))

    def of_call(self, call: _Call) -> tuple[bool, ...]:
        """The layouts of a call's operands and result.

        Constants follow the result, and so do elementwise operands of a contraction's epilogue.
        """
        *inputs, out = call.values
        is_last = out in self.last
        follow = call.costs.elementwise if is_last else ()
        return (
            *(
                is_last
                if number in call.costs.epilogue
                else value in self.last or (number in follow and _is_constant(value))
                for number, value in enumerate(inputs)
            ),
            is_last,
        )


def _groups(values: Sequence[ir.Value], graph: _Graph) -> list[list[ir.Value]]:
    """Groups of tensors that elementwise programs connect and that share a layout."""
    group_of: dict[ir.Value, list[ir.Value]] = {v: [v] for v in values}
    for call in graph.calls.values():
        joined = [call.values[i] for i in call.costs.elementwise]
        for value in joined:
            one, other = group_of.get(value), group_of.get(call.values[-1])
            if one is None or other is None or one is other:
                continue
            one.extend(other)
            group_of.update(dict.fromkeys(other, one))
    return list({id(g): g for g in group_of.values()}.values())


def _channels_last(value: ir.Value) -> AxisOrder:
    rank = ir.RankedTensorType(value.type).rank
    return (0, *range(2, rank), 1)


def _is_same_in_memory(value: ir.Value) -> bool:
    """Whether both layouts have the same memory order, as there is one non-unit dimension."""
    _, channels, *sizes = tensors.shape_of(value)
    return channels == 1 or all(size == 1 for size in sizes)


@dataclass
class _Conversion:
    """Rewrites the calls of functions to the assigned layouts.

    Attributes:
        copies: of programs.
        made: names of the copies, by that of the original and the layouts of its buffers.
    """

    module: IRModule
    copies: PrimFuncCopies
    made: dict[tuple[str, tuple[bool, ...]], str] = field(default_factory=dict)

    def run(self, function: func.FuncOp) -> None:
        """Rewrites one function."""
        graph = _Graph(function, self.copies.programs)
        layouts = _LayoutSearch(graph)
        new: _Converted = {}
        for call in graph.calls.values():
            found = layouts.of_call(call)
            if any(found) or not layouts.last.isdisjoint(call.values):
                others = graph.other_readers(call.values[-1])
                with ir.InsertionPoint(call.op), call.op.location:
                    self._convert(call, found, others, new)

    def _convert(
        self,
        call: _Call,
        layouts: tuple[bool, ...],
        others: Sequence[ir.OpView],
        new: _Converted,
    ) -> None:
        """Replaces a call by one on tensors in their assigned layouts.

        Args:
            layouts: layouts of the operands and the result.
            others: users of the result that need the old layout.
            new: converted tensors; receives the result.
        """
        *inputs, out = call.values
        given = [
            self._operand(value, layout, new)
            for value, layout in zip(inputs, layouts, strict=False)
        ]
        is_last = layouts[-1]
        made = CallTirOp(
            given,
            callee=self._program(call, layouts),
            sizes=call.op.attributes["sizes"],
            results=[_type_in(out, _channels_last(out)) if is_last else out.type],
        )
        new[out, is_last] = made.result
        if not is_last:
            out.replace_all_uses_with(made.result)
        elif others:
            new[out, False] = back = _to_old_layout(made.result, out)
            for reader in others:
                _replace_operand(reader, out, back)

    def _operand(self, value: ir.Value, is_last: bool, new: _Converted) -> ir.Value:
        """A tensor in a layout, transposed if necessary."""
        if (value, is_last) not in new:
            if is_last:
                new[value, True] = self._transposed(
                    value, new.get((value, False), value)
                )
            elif (value, True) in new:
                new[value, False] = _to_old_layout(new[value, True], value)
        return new.get((value, is_last), value)

    def _transposed(self, value: ir.Value, made: ir.Value) -> ir.Value:
        """A tensor with channels last; ``made`` is its converted value with channels first."""
        order, source = _channels_last(value), value.owner
        if isinstance(source, ConstantOp):
            transposed = source.array(self.module.constants).transpose(order)
            key = f"{source.key or 'constant'}.channels_last"
            return pooled_constant(self.module, transposed, key)
        if _is_same_in_memory(value):
            shape = permute_items(tensors.shape_of(value), order)
            return ReshapeOp(made, shape=shape).y
        return PermuteDimsOp(made, axes=order).y

    def _program(self, call: _Call, layouts: tuple[bool, ...]) -> str:
        """The version of a program for some layouts of its buffers."""
        name = call.op.attributes["callee"].value
        if not any(layouts):
            return name
        if (name, layouts) not in self.made:
            orders = {
                number: _channels_last(value)
                for number, value in enumerate(call.values)
                if layouts[number]
            }
            copy = self.copies.copy(name)
            permute_buffers(copy, orders)
            self.made[name, layouts] = ir.StringAttr(copy.attributes["sym_name"]).value
        return self.made[name, layouts]


def _type_in(value: ir.Value, order: AxisOrder) -> ir.RankedTensorType:
    shape = permute_items(tensors.shape_of(value), order)
    return tensors.tensor_type(shape, tensors.dtype_of(value))


def _to_old_layout(value: ir.Value, old: ir.Value) -> ir.Value:
    """A channels-last tensor in its old layout."""
    if _is_same_in_memory(old):
        return ReshapeOp(value, shape=tensors.shape_of(old)).y
    rank = len(tensors.shape_of(old))
    return PermuteDimsOp(value, axes=(0, rank - 1, *range(1, rank - 1))).y


def _replace_operand(reader: ir.OpView, old: ir.Value, new: ir.Value) -> None:
    """Replaces a value among the operands of an operation, or in a tuple it is passed in."""
    for number, operand in enumerate(reader.operation.operands):
        if operand == old:
            reader.operation.operands[number] = new
        elif old in (packed := tensors.packed_values(operand) or ()):
            parts = [new if v == old else v for v in packed]
            with ir.InsertionPoint(reader), reader.location:
                reader.operation.operands[number] = tensors.pack_tuple(parts)
