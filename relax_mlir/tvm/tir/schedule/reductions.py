"""Reads the combiner of a reduction block (accumulator op new value).

A reduction has one result, combined by an operation with a known identity, or several that a
comparison selects together, as argmax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import operations_named, own_operations
from relax_mlir.schedules.argmax import is_weak_order
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute
from relax_mlir.tvm.tir.schedule import accesses, edit, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols

__all__ = ["Reduction", "ReductionResult", "is_same_value", "match_reduction"]

# The identity element of each combiner.
_IDENTITIES: Mapping[str, float] = {
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
class ReductionResult:
    """One result of a reduction.

    Attributes:
        init: the store of the initial value.
        store: the store of the update.
        combiner: the combiner operation.
        accumulator_operand: the number of its operand that is the accumulator; the other one is the new value.
        let: the name bound to the combined value, or None.
    """

    init: ir.Operation
    store: ir.Operation
    combiner: ir.Operation
    accumulator_operand: int
    let: str | None = None

    @property
    def buffer(self) -> ir.Value:
        """The buffer of the result."""
        return self.store.operands[1]

    @property
    def new(self) -> ir.Value:
        """The new value."""
        *_, first, second = self.combiner.operands
        is_first = self.accumulator_operand == len(self.combiner.operands) - 2
        return second if is_first else first

    @property
    def accumulator(self) -> ir.Value:
        """The loaded accumulator."""
        return self.combiner.operands[self.accumulator_operand]


@dataclass(frozen=True)
class Reduction:
    """The combiner of a reduction block.

    Attributes:
        block: the block.
        results: its results; each depends only on accumulators and new values of the results.
    """

    block: ir.Operation
    results: Sequence[ReductionResult]

    @property
    def element_indices(self) -> list[ir.Value]:
        """The indices of the results, in terms of the iter vars of the body."""
        return list(self.results[0].store.operands)[2:]


def match_reduction(block: ir.Operation, where: str) -> Reduction:
    """Matches a reduction with a known combiner.

    Raises:
        ScheduleError: it is not such a reduction.
    """
    start = tree.init_block_of(block)
    assert start is not None
    init_ops, update_ops = (_stores(region) for region in (start, tree.body(block)))
    init_stores = {op.operands[1]: op for op in init_ops}
    update_stores = {op.operands[1]: op for op in update_ops}
    is_conditional = any(
        op.block not in (start, tree.body(block)) for op in (*init_ops, *update_ops)
    )
    if (
        is_conditional
        or init_stores.keys() != update_stores.keys()
        or len({len(init_ops), len(update_ops), len(init_stores)}) > 1
    ):
        raise _unmatched(
            block, where, "an initial value and an update that each store one element"
        )
    _check_store_indices(block, init_ops, update_ops, where)
    if any(_let_name(op) is not None for op in init_ops):
        raise _unmatched(block, where, "initial values without `let`")
    if len({accesses.buffer_shape(op.operands[1]) for op in update_ops}) > 1:
        raise _unmatched(block, where, "results of one shape")
    results = [
        _match_result(block, init_stores[op.operands[1]], op, where)
        for op in update_ops
    ]
    if len(results) > 1:
        results = _in_let_order(block, results, where)
    reduction = Reduction(block, results)
    if len(results) > 1 or results[0].combiner.name == _SELECT:
        _check_selection(reduction, where)
    return reduction


def _in_let_order(
    block: ir.Operation, results: Sequence[ReductionResult], where: str
) -> list[ReductionResult]:
    """Several results in the order of their ``let`` bindings, before any is stored."""
    if any(result.let is None for result in results):
        raise _unmatched(
            block, where, "results that are bound by `let` before any is stored"
        )
    listed = [op.operation for op in own_operations(tree.body(block))]
    return sorted(
        results, key=lambda p: listed.index(p.store.operands[0].owner.operation)
    )


def _stores(region: ir.Block) -> list[ir.Operation]:
    return [op.operation for op in operations_named(region, "memref.store")]


def _check_store_indices(
    block: ir.Operation,
    starts: Sequence[ir.Operation],
    stores: Sequence[ir.Operation],
    where: str,
) -> None:
    """Reject stores of the init block and the update at different indices."""
    indices = IndexSymbols()
    start = tree.init_block_of(block)
    assert start is not None
    same: dict[str, Dim] = {
        indices.symbol(a): dims.symbol(indices.symbol(b))
        for a, b in zip(start.arguments, tree.body(block).arguments, strict=True)
    }
    init_indices = [
        [substitute(indices.of(v), same) for v in _store_indices(op)] for op in starts
    ]
    update_indices = [list(map(indices.of, _store_indices(op))) for op in stores]
    if any(
        indices_of_store != update_indices[0]
        for indices_of_store in [*init_indices, *update_indices]
    ):
        raise _unmatched(block, where, "an init store at the indices of the update")


def _store_indices(store: ir.Operation) -> list[ir.Value]:
    return list(store.operands)[2:]


def _match_result(
    block: ir.Operation, start: ir.Operation, store: ir.Operation, where: str
) -> ReductionResult:
    combine, let = store.operands[0].owner, _let_name(store)
    if let is not None:
        combine = combine.operation.operands[0].owner
    if isinstance(combine, ir.Block) or combine.name not in (*_IDENTITIES, _SELECT):
        raise _unmatched(
            block, where, "an update by a sum, product, minimum, maximum or selection"
        )
    combine = combine.operation
    count = len(combine.operands)
    for number in range(count - 2, count):
        if _is_accumulator(combine.operands[number], store):
            if combine.name in _IDENTITIES and not _is_identity(
                start.operands[0], combine.name
            ):
                raise _unmatched(
                    block,
                    where,
                    "an initial value that is the identity of the combiner",
                )
            return ReductionResult(start, store, combine, number, let)
    raise _unmatched(
        block, where, "an update that combines the accumulator with another value"
    )


def _let_name(store: ir.Operation) -> str | None:
    """The name bound to a stored value, or None."""
    owner = store.operands[0].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "tir.let":
        return None
    return tree.string_attr(owner.operation, "name")


def _is_accumulator(value: ir.Value, store: ir.Operation) -> bool:
    """Whether a value is the element that a store overwrites: the accumulator."""
    load = value.owner
    if isinstance(load, ir.Block) or load.name != "memref.load":
        return False
    indices = IndexSymbols()
    store_indices = [indices.of(v) for v in _store_indices(store)]
    load_indices = [indices.of(v) for v in list(load.operands)[1:]]
    return load.operands[0] == store.operands[1] and load_indices == store_indices


def _check_selection(reduction: Reduction, where: str) -> None:
    """Reject several results unless all have combiners, or one comparison selects all."""
    block, results = reduction.block, reduction.results
    selected = [p for p in results if p.combiner.name == _SELECT]
    if not selected:
        return
    conditions = [p.combiner.operands[0] for p in results]
    same_order = len({p.accumulator_operand for p in results}) == 1
    if (
        len(selected) < len(results)
        or not same_order
        or not all(is_same_value(conditions[0], c) for c in conditions)
        or not is_weak_order(conditions[0], lambda v: _operand_role(v, results))
    ):
        raise _unmatched(
            block, where, "results that one comparison of old with new values selects"
        )
    if not any(_is_extreme_value(p.init.operands[0]) for p in results):
        raise _unmatched(block, where, "an initial value that is an identity")


def _operand_role(
    value: ir.Value, results: Sequence[ReductionResult]
) -> tuple[int, bool] | None:
    """The result whose accumulator or new value a value is, and whether it is the former."""
    for number, result in enumerate(results):
        is_old = _is_accumulator(value, result.store)
        if is_old or is_same_value(value, result.new):
            return number, is_old
    return None


def is_same_value(left: ir.Value, right: ir.Value) -> bool:
    """Whether two values are computed by equal expressions of the same values."""
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
        is_same_value(x, y) for x, y in pairs
    )


def _unmatched(block: ir.Operation, where: str, expected: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: {tree.describe(block)} is not a commutative reduction: expected {expected}"
    )


def _constant(value: ir.Value) -> Any | None:  # Any: the stubs know no numbers
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attr: Any = owner.attributes["value"]
    return attr.value


def _is_identity(value: ir.Value, combiner: str) -> bool:
    number, wanted = _constant(value), _IDENTITIES[combiner]
    if number is None:
        return False
    if abs(wanted) != float("inf"):
        return number == wanted
    return number == wanted or _is_extreme(number, value.type, least=wanted < 0)


def _is_extreme_value(value: ir.Value) -> bool:
    """Whether a value is the least or the greatest of its type."""
    number = _constant(value)
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
