"""``relax-plan-memory``: where in one arena every intermediate tensor lies."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import marks
from relax_mlir.module import IRModule
from relax_mlir.passes.main_signature import PLAN_ATTRIBUTES
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import own_operations

__all__ = ["PlanMemory", "result_tensors", "result_types", "storage_root"]

_ALIGNMENT = 64  # bytes


@dataclass
class _Tensor:
    """Intermediates that take each other's place.

    Attributes:
        places: the calls that make them, and the numbers of their results.
        size: bytes; first, last: the steps that they live from and to.
    """

    places: list[tuple[ir.OpView, int]]
    size: Dim
    first: int
    last: int
    offset: Dim = 0


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Give every intermediate a place in one arena, reusing what is dead.

    Sets ``relax.offsets`` on the calls, and ``relax.arena_bytes`` on the function, next
    to ``relax.unshared_bytes``, which is what it would be without reuse, and, if all
    sizes are known, ``relax.live_bytes``: what lives at once at most, which no arena is
    smaller than. Tensors that are returned lie in the caller's buffers, and a reshape is
    a view of its operand. The result of a program lies where an argument of it was that
    nobody reads later, if ``tir-mark-in-place`` says that it may.
    """

    def run(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in module.func_ops()}
        main = functions.get("main")
        if main is None or main.is_external or "relax.main" in main.attributes:
            return
        overwritable = {
            name: tuple(f.attributes[marks.IN_PLACE])
            for name, f in functions.items()
            if marks.IN_PLACE in f.attributes
        }
        _plan(main, overwritable)


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


def _plan(function: func.FuncOp, overwritable: Mapping[str, Sequence[int]]) -> None:
    """Plan one function.

    Args:
        overwritable: the arguments of programs that their results may overwrite.
    """
    operations = list(own_operations(function.entry_block))
    last = _last_uses(operations)
    returned = {storage_root(v) for v in operations[-1].operands}
    intermediates: list[_Tensor] = []
    of_value: dict[ir.Value, _Tensor] = {}
    for step, op in enumerate(operations):
        if op.operation.name not in ("relax.call_tir", "relax.call_dps_packed"):
            continue
        for position, (value, type_) in enumerate(
            zip(result_tensors(op), result_types(op), strict=True)
        ):
            if value is not None and value in returned:
                continue
            end = last.get(value, step) if value is not None else step
            taken = _overwritten(op, overwritable, type_, last, step)
            tensor = of_value.get(taken) if taken is not None else None
            if tensor is None:
                tensor = _Tensor([], _bytes(type_), step, end)
                intermediates.append(tensor)
            tensor.places.append((op, position))
            tensor.last = end
            if value is not None:
                of_value[value] = tensor
    total = _place(intermediates)
    _annotate(function, intermediates, total)


def _overwritten(
    op: ir.OpView,
    overwritable: Mapping[str, Sequence[int]],
    type_: ir.Type,
    last: Mapping[ir.Value, int],
    step: int,
) -> ir.Value | None:
    """The value that the result of a call may take the place of, if there is one."""
    if op.operation.name != "relax.call_tir":
        return None
    roots = [storage_root(value) for value in tensors.elements(op.operands[0])]
    for number in overwritable.get(op.attributes["callee"].value, ()):
        root = roots[number]
        is_dead = last[root] == step and roots.count(root) == 1
        if is_dead and _bytes(root.type) == _bytes(type_):
            return root
    return None


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

    Constant sizes are placed first. A symbolic size takes the slot of a dead tensor that
    is surely as large, or a new one at the end.
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


# What is hard to place comes first: what is large, or alive for long.
_ORDERS: tuple[Callable[[_Tensor], tuple[Dim, ...]], ...] = (
    lambda t: (-t.size, t.first),
    lambda t: (t.first - t.last, -t.size),
    lambda t: (-t.size * (t.last - t.first + 1), t.first),
)


def _place_static(tensors_: list[_Tensor]) -> int:
    """Place tensors of constant sizes; the bytes they take.

    Each takes the lowest offset that is free while it lives, in several orders until one
    takes no more than what lives at once, or else in the best of them.
    """
    least, best = _most_alive(tensors_), None
    for key in _ORDERS:
        found = _place_in_order(sorted(tensors_, key=key))
        if best is None or found[0] < best[0]:
            best = found
        if best[0] == least:
            break
    total, offsets = best
    for tensor, offset in offsets:
        tensor.offset = offset
    return total


def _place_in_order(order: list[_Tensor]) -> tuple[int, list[tuple[_Tensor, int]]]:
    """The bytes that tensors take, and their offsets, if they are placed one by one."""
    fits = sum(t.size for t in order) < 1 << 62
    first, last = (np.zeros(len(order), np.int64) for _ in range(2))
    begin, end = (np.zeros(len(order), np.int64 if fits else object) for _ in range(2))
    for n, tensor in enumerate(order):
        live = (first[:n] <= tensor.last) & (last[:n] >= tensor.first)
        offset = _gap(begin[:n][live], end[:n][live], tensor.size)
        first[n], last[n] = tensor.first, tensor.last
        begin[n], end[n] = offset, offset + tensor.size
    return int(end.max(initial=0)), list(zip(order, map(int, begin), strict=True))


def _most_alive(tensors_: Sequence[_Tensor]) -> int:
    """The most bytes that live at once."""
    changes: dict[int, int] = {}
    for tensor in tensors_:
        changes[tensor.first] = changes.get(tensor.first, 0) + tensor.size
        changes[tensor.last + 1] = changes.get(tensor.last + 1, 0) - tensor.size
    alive = accumulate(changes[step] for step in sorted(changes))
    return max(alive, default=0)


def _gap(begin: np.ndarray, end: np.ndarray, size: int) -> int:
    """The lowest offset from which ``size`` bytes are free between those that are taken."""
    order = np.argsort(begin, kind="stable")
    free = np.maximum.accumulate(np.concatenate([[0], end[order]]))
    places = np.flatnonzero(free[:-1] + size <= begin[order])
    return int(free[places[0]] if len(places) else free[-1])


def _annotate(function: func.FuncOp, intermediates: list[_Tensor], total: Dim) -> None:
    by_op: dict[ir.OpView, dict[int, Dim]] = {}
    for tensor in intermediates:
        for op, position in tensor.places:
            by_op.setdefault(op, {})[position] = tensor.offset
    for op, offsets in by_op.items():
        count = len(result_types(op))
        texts = [str(offsets[i]) if i in offsets else "" for i in range(count)]
        op.attributes["relax.offsets"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(t) for t in texts]
        )
    unshared: Dim = 0
    for tensor in intermediates:
        unshared = unshared + tensor.size * len(tensor.places)
    are_known = all(isinstance(tensor.size, int) for tensor in intermediates)
    alive = _most_alive(intermediates) if are_known else None
    for name, size in zip(PLAN_ATTRIBUTES, (total, alive, unshared), strict=True):
        if size is not None:
            function.attributes[name] = ir.StringAttr.get(str(size))
