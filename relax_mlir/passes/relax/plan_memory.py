"""``relax-plan-memory``: memory planning of intermediate tensors in one arena."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.passes.main_signature import PLAN_ATTRIBUTES
from relax_mlir.passes.relax.flatten_tuples import fold_tuple_get_items
from relax_mlir.rewrite.patterns import Pass

__all__ = ["PlanMemory", "result_tensors", "storage_root"]

_ALIGNMENT = 64  # bytes


@dataclass
class _Tensor:
    """Intermediates that share one allocation, since each overwrites the one before.

    Attributes:
        results: the calls that write it, and the positions of their results.
        size: bytes; first, last: its live range in steps.
        offset: in the arena, bytes.
    """

    results: list[tuple[ir.OpView, int]]
    size: Dim
    first: int
    last: int
    offset: Dim = 0


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Assign every intermediate an offset in one arena, reusing memory by liveness.

    Sets ``relax.offsets`` on the calls, and on the function ``relax.arena_bytes``,
    ``relax.unshared_bytes``, the size without reuse, and, if all sizes are static,
    ``relax.live_bytes``: the peak of live bytes, a lower bound of any arena. Returned tensors
    are written to the caller's buffers, and a reshape is a view of its operand. A result of a
    program overwrites a dead argument if ``tir-mark-in-place`` allows it.
    """

    def run(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in module.func_ops()}
        main = functions.get("main")
        if main is None or main.is_external or "relax.main" in main.attributes:
            return
        overwritable = {
            name: tuple(f.attributes[attribute_names.IN_PLACE])
            for name, f in functions.items()
            if attribute_names.IN_PLACE in f.attributes
        }
        _plan(main, overwritable)


def storage_root(value: ir.Value) -> ir.Value:
    """The value whose buffer ``value`` is a view of: the source of its chain of reshapes."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == "relax.reshape":
        value = value.owner.operands[0]
    return value


def result_tensors(op: ir.OpView) -> list[ir.Value]:
    """The tensors that a call returns: its result, or the elements of its tuple in order.

    An element without a ``tuple_get_item`` is None.
    """
    result = op.results[0]
    if not isinstance(result.type, ir.TupleType):
        return [result]
    elements: list[ir.Value | None] = [None] * result.type.num_types
    for use in result.uses:
        elements[use.owner.attributes["index"].value] = use.owner.results[0]
    return elements


def _plan(function: func.FuncOp, overwritable: Mapping[str, Sequence[int]]) -> None:
    """Plans the memory of one function.

    Args:
        overwritable: per program, the arguments that its results may overwrite.
    """
    fold_tuple_get_items(function)  # a tuple has no buffer, but its elements
    operations = list(own_operations(function.entry_block))
    last = _last_uses(operations)
    returned = {storage_root(v) for v in operations[-1].operands}
    intermediates: list[_Tensor] = []
    of_value: dict[ir.Value, _Tensor] = {}
    for step, op in enumerate(operations):
        if op.operation.name not in ("relax.call_tir", "relax.call_dps_packed"):
            continue
        for position, (value, type_) in enumerate(
            zip(
                result_tensors(op), tensors.tuple_types(op.results[0].type), strict=True
            )
        ):
            if value is not None and value in returned:
                continue
            end = last.get(value, step) if value is not None else step
            reused = _reused_operand(op, overwritable, type_, last, step)
            tensor = of_value.get(reused) if reused is not None else None
            if tensor is None:
                tensor = _Tensor([], _bytes(type_), step, end)
                intermediates.append(tensor)
            tensor.results.append((op, position))
            tensor.last = end
            if value is not None:
                of_value[value] = tensor
    total = _assign_offsets(intermediates)
    _annotate(function, intermediates, total)


def _reused_operand(
    op: ir.OpView,
    overwritable: Mapping[str, Sequence[int]],
    type_: ir.Type,
    last: Mapping[ir.Value, int],
    step: int,
) -> ir.Value | None:
    """The dead operand whose memory the result of a call may reuse, or None."""
    if op.operation.name != "relax.call_tir":
        return None
    roots = [storage_root(value) for value in tensors.tuple_elements(op.operands[0])]
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
    """The last step that reads each value's memory."""
    last: dict[ir.Value, int] = {}
    for step, op in enumerate(operations):
        for operand in op.operands:
            last[storage_root(operand)] = step
    # A tuple pack extends live ranges to the call that reads the tuple.
    for step, op in enumerate(operations):
        if op.operation.name != tensors.TUPLE_PACK:
            continue
        end = last.get(op.results[0], step)
        for operand in op.operands:
            root = storage_root(operand)
            last[root] = max(last[root], end)
    return last


def _assign_offsets(intermediates: list[_Tensor]) -> Dim:
    """Assigns offsets; returns the size of the arena in bytes.

    Static sizes are placed first. A tensor of symbolic size takes the slot of a dead tensor
    that is provably as large, or a new one at the end.
    """
    total: Dim = _assign_static_offsets(
        [t for t in intermediates if isinstance(t.size, int)]
    )
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
    """Slots of tensors of symbolic size, allocated in the order of first use."""

    def __init__(self) -> None:
        self._offsets: list[Dim] = []
        self._taken: list[tuple[int, int, Dim]] = []  # last use, slot, its size
        self._free: dict[Dim, list[int]] = {}  # by size, a heap of slots
        self._fits: dict[tuple[Dim, Dim], bool] = {}

    def take(self, tensor: _Tensor) -> Dim | None:
        """The offset of the first free slot that is provably large enough, or None."""
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
        """Adds a slot, occupied by a tensor."""
        self._free.setdefault(tensor.size, [])
        heapq.heappush(self._taken, (tensor.last, len(self._offsets), tensor.size))
        self._offsets.append(offset)

    def _is_enough(self, needed: Dim, size: Dim) -> bool:
        key = needed, size
        if key not in self._fits:
            self._fits[key] = shapes.is_known_le(needed, size)
        return self._fits[key]


# Placement orders: tensors that are large or live long first.
_ORDERS: tuple[Callable[[_Tensor], tuple[Dim, ...]], ...] = (
    lambda t: (-t.size, t.first),
    lambda t: (t.first - t.last, -t.size),
    lambda t: (-t.size * (t.last - t.first + 1), t.first),
)


def _assign_static_offsets(tensors_: list[_Tensor]) -> int:
    """Assigns offsets to tensors of static sizes; returns the bytes they need.

    Each takes the lowest offset free during its live range (first fit), in several orders
    until one needs no more than the peak of live bytes, or else in the best of them.
    """
    bound, best = _peak_live_bytes(tensors_), None
    for key in _ORDERS:
        found = _first_fit(sorted(tensors_, key=key))
        if best is None or found[0] < best[0]:
            best = found
        if best[0] == bound:
            break
    total, offsets = best
    for tensor, offset in offsets:
        tensor.offset = offset
    return total


def _first_fit(order: list[_Tensor]) -> tuple[int, list[tuple[_Tensor, int]]]:
    """The total bytes and the offsets of first-fit placement in a given order."""
    fits = sum(t.size for t in order) < 1 << 62
    first, last = (np.zeros(len(order), np.int64) for _ in range(2))
    begin, end = (np.zeros(len(order), np.int64 if fits else object) for _ in range(2))
    for n, tensor in enumerate(order):
        live = (first[:n] <= tensor.last) & (last[:n] >= tensor.first)
        offset = _lowest_free(begin[:n][live], end[:n][live], tensor.size)
        first[n], last[n] = tensor.first, tensor.last
        begin[n], end[n] = offset, offset + tensor.size
    return int(end.max(initial=0)), list(zip(order, map(int, begin), strict=True))


def _peak_live_bytes(tensors_: Sequence[_Tensor]) -> int:
    """The peak of live bytes."""
    changes: dict[int, int] = {}
    for tensor in tensors_:
        changes[tensor.first] = changes.get(tensor.first, 0) + tensor.size
        changes[tensor.last + 1] = changes.get(tensor.last + 1, 0) - tensor.size
    live = accumulate(changes[step] for step in sorted(changes))
    return max(live, default=0)


def _lowest_free(begin: np.ndarray, end: np.ndarray, size: int) -> int:
    """The lowest offset at which ``size`` bytes are free between occupied ranges."""
    order = np.argsort(begin, kind="stable")
    free = np.maximum.accumulate(np.concatenate([[0], end[order]]))
    places = np.flatnonzero(free[:-1] + size <= begin[order])
    return int(free[places[0]] if len(places) else free[-1])


def _annotate(function: func.FuncOp, intermediates: list[_Tensor], total: Dim) -> None:
    by_op: dict[ir.OpView, dict[int, Dim]] = {}
    for tensor in intermediates:
        for op, position in tensor.results:
            by_op.setdefault(op, {})[position] = tensor.offset
    for op, offsets in by_op.items():
        count = len(tensors.tuple_types(op.results[0].type))
        texts = [str(offsets[i]) if i in offsets else "" for i in range(count)]
        op.attributes["relax.offsets"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(t) for t in texts]
        )
    unshared: Dim = 0
    for tensor in intermediates:
        unshared = unshared + tensor.size * len(tensor.results)
    are_known = all(isinstance(tensor.size, int) for tensor in intermediates)
    alive = _peak_live_bytes(intermediates) if are_known else None
    for name, size in zip(PLAN_ATTRIBUTES, (total, alive, unshared), strict=True):
        if size is not None:
            function.attributes[name] = ir.StringAttr.get(str(size))
