"""What a reduction combines: the values so far, the new ones, and how.

A reduction has one result, combined by an operation with a known start value, or several
that a comparison selects together, such as a maximum and where it was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute
from relax_mlir.errors import ScheduleError
from relax_mlir.schedules.selections import is_weak_order
from relax_mlir.tir.schedule import accesses, edit, tree
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.traversal import named, own_operations

__all__ = ["Part", "Reduction", "match_reduction", "same_value"]

# Start value of the operations that values are combined with.
_COMBINERS: Mapping[str, float] = {
    "arith.addf": 0.0,
    "arith.addi": 0,
    "arith.mulf": 1.0,
    "arith.muli": 1,
    "arith.maximumf": -float("inf"),
    "arith.minimumf": float("inf"),
    "arith.maxsi": -float("inf"),
    "arith.minsi": float("inf"),
    "arith.maxui": 0,
    "arith.minui": float("inf"),
    "arith.andi": float("inf"),
    "arith.ori": 0,
}
_SELECT = "arith.select"


@dataclass(frozen=True)
class Part:
    """One result of a reduction.

    Attributes:
        start: the store of the start value.
        store: the store of what was combined.
        combine: the operation that combines.
        old: the operand of it that is the value so far; the other one is the new value.
        let: what the combined value is called, or None.
    """

    start: ir.Operation
    store: ir.Operation
    combine: ir.Operation
    old: int
    let: str | None = None

    @property
    def buffer(self) -> ir.Value:
        """What it writes."""
        return self.store.operands[1]

    @property
    def new(self) -> ir.Value:
        """What is combined with the value so far."""
        *_, first, second = self.combine.operands
        is_first = self.old == len(self.combine.operands) - 2
        return second if is_first else first

    @property
    def so_far(self) -> ir.Value:
        """The value so far, as it is read."""
        return self.combine.operands[self.old]


@dataclass(frozen=True)
class Reduction:
    """What a reduction block does at one point.

    Attributes:
        block: the block.
        parts: its results; the values of one depend on those of the others alone.
    """

    block: ir.Operation
    parts: Sequence[Part]

    @property
    def place(self) -> list[ir.Value]:
        """Where in its results it writes, in terms of the axes of the body."""
        return list(self.parts[0].store.operands)[2:]


def match_reduction(block: ir.Operation, where: str) -> Reduction:
    """The parts of a reduction that combines values in a known way.

    Raises:
        ScheduleError: it has another form.
    """
    start = tree.init_of(block)
    assert start is not None
    starts, stores = (_stores(region) for region in (start, tree.body(block)))
    begun = {op.operands[1]: op for op in starts}
    ended = {op.operands[1]: op for op in stores}
    is_conditional = any(
        op.block not in (start, tree.body(block)) for op in (*starts, *stores)
    )
    if (
        is_conditional
        or begun.keys() != ended.keys()
        or len({len(starts), len(stores), len(begun)}) > 1
    ):
        raise _unmatched(
            block, where, "a start value and an update that each store one element"
        )
    _check_places(block, starts, stores, where)
    if any(_let_name(op) is not None for op in starts):
        raise _unmatched(block, where, "start values without `let`")
    if len({accesses.buffer_shape(op.operands[1]) for op in stores}) > 1:
        raise _unmatched(block, where, "results of one shape")
    parts = [_part(block, begun[op.operands[1]], op, where) for op in stores]
    if len(parts) > 1:
        parts = _in_order(block, parts, where)
    found = Reduction(block, parts)
    if len(parts) > 1 or parts[0].combine.name == _SELECT:
        _check_together(found, where)
    return found


def _in_order(block: ir.Operation, parts: Sequence[Part], where: str) -> list[Part]:
    """Several results in the order in which they are named, before any is stored."""
    if any(part.let is None for part in parts):
        raise _unmatched(
            block, where, "results that are named by `let` before any is kept"
        )
    listed = [op.operation for op in own_operations(tree.body(block))]
    return sorted(
        parts, key=lambda p: listed.index(p.store.operands[0].owner.operation)
    )


def _stores(region: ir.Block) -> list[ir.Operation]:
    return [op.operation for op in named(region, "memref.store")]


def _check_places(
    block: ir.Operation,
    starts: Sequence[ir.Operation],
    stores: Sequence[ir.Operation],
    where: str,
) -> None:
    """All is stored at the same place of each result."""
    indices = Indices()
    start = tree.init_of(block)
    assert start is not None
    same: dict[str, Dim] = {
        indices.symbol(a): dims.symbol(indices.symbol(b))
        for a, b in zip(start.arguments, tree.body(block).arguments, strict=True)
    }
    begun = [[substitute(indices.of(v), same) for v in _place(op)] for op in starts]
    ended = [list(map(indices.of, _place(op))) for op in stores]
    if any(place != ended[0] for place in [*begun, *ended]):
        raise _unmatched(block, where, "a start value stored where the update stores")


def _place(store: ir.Operation) -> list[ir.Value]:
    return list(store.operands)[2:]


def _part(
    block: ir.Operation, start: ir.Operation, store: ir.Operation, where: str
) -> Part:
    combine, let = store.operands[0].owner, _let_name(store)
    if let is not None:
        combine = combine.operation.operands[0].owner
    if isinstance(combine, ir.Block) or combine.name not in (*_COMBINERS, _SELECT):
        raise _unmatched(
            block, where, "an update by a sum, product, minimum, maximum or selection"
        )
    combine = combine.operation
    count = len(combine.operands)
    for number in range(count - 2, count):
        if _is_so_far(combine.operands[number], store):
            if combine.name in _COMBINERS and not _is_identity(
                start.operands[0], combine.name
            ):
                raise _unmatched(
                    block, where, "a start value that changes no other value"
                )
            return Part(start, store, combine, number, let)
    raise _unmatched(
        block, where, "an update that combines the value so far with another"
    )


def _let_name(store: ir.Operation) -> str | None:
    """What a value is called that is stored, or None."""
    owner = store.operands[0].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "tir.let":
        return None
    return tree.string_attr(owner.operation, "name")


def _is_so_far(value: ir.Value, store: ir.Operation) -> bool:
    """Whether a value is the element that a store overwrites."""
    load = value.owner
    if isinstance(load, ir.Block) or load.name != "memref.load":
        return False
    indices = Indices()
    where = [indices.of(v) for v in _place(store)]
    read = [indices.of(v) for v in list(load.operands)[1:]]
    return load.operands[0] == store.operands[1] and read == where


def _check_together(found: Reduction, where: str) -> None:
    """Several results are sums and the like, or one comparison selects all of them."""
    block, parts = found.block, found.parts
    selected = [p for p in parts if p.combine.name == _SELECT]
    if not selected:
        return
    conditions = [p.combine.operands[0] for p in parts]
    same_order = len({p.old for p in parts}) == 1
    if (
        len(selected) < len(parts)
        or not same_order
        or not all(same_value(conditions[0], c) for c in conditions)
        or not is_weak_order(conditions[0], lambda v: _side_of(v, parts))
    ):
        raise _unmatched(
            block, where, "results that one comparison of old with new values selects"
        )
    if not any(_is_end_of_type(p.start.operands[0]) for p in parts):
        raise _unmatched(block, where, "a start value that changes no other value")


def _side_of(value: ir.Value, parts: Sequence[Part]) -> tuple[int, bool] | None:
    """The part whose value so far, or new value, a value is, and whether the former."""
    for number, part in enumerate(parts):
        is_old = _is_so_far(value, part.store)
        if is_old or same_value(value, part.new):
            return number, is_old
    return None


def same_value(left: ir.Value, right: ir.Value) -> bool:
    """Whether two values are computed in the same way of the same values."""
    if left == right:
        return True
    a, b = left.owner, right.owner
    if isinstance(a, ir.Block) or isinstance(b, ir.Block) or a.name != b.name:
        return False
    if not (tree.is_pure(a.operation) or a.name == "memref.load"):
        return False
    if edit.attributes_of(a.operation) != edit.attributes_of(b.operation):
        return False
    pairs = zip(a.operands, b.operands, strict=False)
    return len(a.operands) == len(b.operands) and all(
        same_value(x, y) for x, y in pairs
    )


def _unmatched(block: ir.Operation, where: str, expected: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: {tree.describe(block)} is no commutative reduction: expected {expected}"
    )


def _number(value: ir.Value) -> Any | None:  # Any: the stubs know no numbers
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attr: Any = owner.attributes["value"]
    return attr.value


def _is_identity(value: ir.Value, combiner: str) -> bool:
    number, wanted = _number(value), _COMBINERS[combiner]
    if number is None:
        return False
    if abs(wanted) != float("inf"):
        return number == wanted
    return number == wanted or _is_extreme(number, value.type, least=wanted < 0)


def _is_end_of_type(value: ir.Value) -> bool:
    """Whether a value is the least or the greatest of its type."""
    number = _number(value)
    return number is not None and any(
        _is_extreme(number, value.type, least=least) for least in (False, True)
    )


def _is_extreme(number: float, type_: ir.Type, *, least: bool) -> bool:
    if isinstance(type_, ir.IntegerType):
        bits = type_.width
        wanted = -(1 << (bits - 1)) if least else (1 << (bits - 1)) - 1
        return number in (wanted, -1 if not least else wanted)
    greatest = {"f16": 65504.0, "f32": 3.4028234e38, "f64": 1.7976931348623157e308}
    limit = greatest.get(str(type_), 3.3895e38)
    return number <= -limit if least else number >= limit
