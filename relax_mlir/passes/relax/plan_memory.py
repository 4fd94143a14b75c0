"""``relax-plan-memory``: where in one arena every intermediate tensor lies."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass

__all__ = ["PlanMemory", "result_tensors", "result_types", "storage_root"]

_ALIGNMENT = 64  # bytes


@dataclass
class _Tensor:
    """An intermediate: its owner's result, bytes, and the steps it lives from and to."""

    op: ir.OpView
    position: int
    size: Dim
    first: int
    last: int
    offset: Dim = 0


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Give every intermediate a place in one arena, reusing what is dead.

    Sets ``relax.offsets`` on the calls, and ``relax.arena_bytes`` on the function, next
    to ``relax.unshared_bytes``, which is what it would be without reuse. Tensors that
    are returned lie in the caller's buffers, and a reshape is a view of its operand.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            is_main = function.name.value == "main" and not function.is_external
            if is_main and "relax.main" not in function.attributes:
                _plan(function)


def storage_root(value: ir.Value) -> ir.Value:
    """The value whose memory ``value`` shares: what a chain of reshapes starts from."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == "relax.reshape":
        value = value.owner.operands[0]
    return value


def result_tensors(op: ir.OpView) -> list[ir.Value]:
    """The tensors that a call makes: its result, or the elements of its tuple in order.

    An element that nobody takes out is missing from the program; its place is None.
    """
    result = op.results[0]
    if not isinstance(result.type, ir.TupleType):
        return [result]
    taken: list[ir.Value | None] = [None] * result.type.num_types
    for use in result.uses:
        taken[use.owner.attributes["index"].value] = use.owner.results[0]
    return taken


def result_types(op: ir.OpView) -> list[ir.Type]:
    """The types of the tensors that a call makes, in order."""
    type_ = op.results[0].type
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [type_.get_type(i) for i in range(type_.num_types)]


def _plan(function: func.FuncOp) -> None:
    operations = list(function.entry_block.operations)
    last = _last_uses(operations)
    returned = {storage_root(v) for v in operations[-1].operands}
    intermediates: list[_Tensor] = []
    for step, op in enumerate(operations):
        if op.operation.name not in ("relax.call_tir", "relax.call_dps_packed"):
            continue
        for position, (value, type_) in enumerate(
            zip(result_tensors(op), result_types(op), strict=True)
        ):
            if value is None or value not in returned:
                end = last.get(value, step) if value is not None else step
                intermediates.append(_Tensor(op, position, _bytes(type_), step, end))
    total = _place(intermediates)
    _annotate(function, intermediates, total)


def _bytes(type_: ir.Type) -> Dim:
    size = shapes.product(tensors.shape_of(type_)) * tensors.dtype_of(type_).size_bytes
    return shapes.ceildiv(size, _ALIGNMENT) * _ALIGNMENT


def _last_uses(operations: Sequence[ir.OpView]) -> dict[ir.Value, int]:
    """The last step that reads the memory of each value."""
    last: dict[ir.Value, int] = {}
    for step, op in enumerate(operations):
        for operand in op.operands:
            last[storage_root(operand)] = step
    # A tuple pack reads nothing; the call that takes it does.
    for step, op in enumerate(operations):
        if op.operation.name != "builtin.unrealized_conversion_cast":
            continue
        end = last.get(op.results[0], step)
        for operand in op.operands:
            root = storage_root(operand)
            last[root] = max(last[root], end)
    return last


def _place(intermediates: list[_Tensor]) -> Dim:
    """Choose offsets; the bytes of the arena.

    Constant sizes are placed largest first at the lowest free offset. A symbolic size
    takes the slot of a dead tensor that is surely as large, or a new one at the end.
    """
    total: Dim = _place_static([t for t in intermediates if isinstance(t.size, int)])
    slots = _Slots()
    for tensor in (t for t in intermediates if not isinstance(t.size, int)):
        offset = slots.take(tensor)
        if offset is None:
            offset = total
            slots.add(tensor, offset)
            total = total + tensor.size
        tensor.offset = offset
    return total


class _Slots:
    """Places of tensors of symbolic sizes, which come in the order of their first use."""

    def __init__(self) -> None:
        self._offsets: list[Dim] = []
        self._taken: list[tuple[int, int, Dim]] = []  # last use, slot, its size
        self._free: dict[Dim, list[int]] = {}  # by size, the first slot first
        self._fits: dict[tuple[Dim, Dim], bool] = {}

    def take(self, tensor: _Tensor) -> Dim | None:
        """The offset of the first slot that is free and surely large enough, if any is."""
        while self._taken and self._taken[0][0] < tensor.first:
            _, slot, size = heapq.heappop(self._taken)
            heapq.heappush(self._free[size], slot)
        found = [
            (slots[0], size)
            for size, slots in self._free.items()
            if slots and self._is_enough(tensor.size, size)
        ]
        if not found:
            return None
        slot, size = min(found, key=lambda pair: pair[0])
        heapq.heappop(self._free[size])
        heapq.heappush(self._taken, (tensor.last, slot, size))
        return self._offsets[slot]

    def add(self, tensor: _Tensor, offset: Dim) -> None:
        """A new slot, which a tensor takes."""
        self._free.setdefault(tensor.size, [])
        heapq.heappush(self._taken, (tensor.last, len(self._offsets), tensor.size))
        self._offsets.append(offset)

    def _is_enough(self, needed: Dim, size: Dim) -> bool:
        key = needed, size
        if key not in self._fits:
            self._fits[key] = shapes.is_known_le(needed, size)
        return self._fits[key]


def _place_static(tensors_: list[_Tensor]) -> int:
    """Place tensors of constant sizes; the bytes they take."""
    order = sorted(tensors_, key=lambda t: (-t.size, t.first))
    fits = sum(t.size for t in order) < 1 << 62
    first, last = (np.zeros(len(order), np.int64) for _ in range(2))
    begin, end = (np.zeros(len(order), np.int64 if fits else object) for _ in range(2))
    for n, tensor in enumerate(order):
        live = (first[:n] <= tensor.last) & (last[:n] >= tensor.first)
        tensor.offset = _gap(begin[:n][live], end[:n][live], tensor.size)
        first[n], last[n] = tensor.first, tensor.last
        begin[n], end[n] = tensor.offset, tensor.offset + tensor.size
    return int(end.max(initial=0))


def _gap(begin: np.ndarray, end: np.ndarray, size: int) -> int:
    """The lowest offset from which ``size`` bytes are free between those that are taken."""
    order = np.argsort(begin, kind="stable")
    free = np.maximum.accumulate(np.concatenate([[0], end[order]]))
    places = np.flatnonzero(free[:-1] + size <= begin[order])
    return int(free[places[0]] if len(places) else free[-1])


def _annotate(function: func.FuncOp, intermediates: list[_Tensor], total: Dim) -> None:
    by_op: dict[ir.OpView, dict[int, Dim]] = {}
    for tensor in intermediates:
        by_op.setdefault(tensor.op, {})[tensor.position] = tensor.offset
    for op, offsets in by_op.items():
        count = len(result_types(op))
        texts = [str(offsets[i]) if i in offsets else "" for i in range(count)]
        op.attributes["relax.offsets"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(t) for t in texts]
        )
    unshared: Dim = 0
    for tensor in intermediates:
        unshared = unshared + tensor.size
    function.attributes["relax.arena_bytes"] = ir.StringAttr.get(str(total))
    function.attributes["relax.unshared_bytes"] = ir.StringAttr.get(str(unshared))
