"""Reads the combiner of a TIR reduction block: accumulator op new value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import operations_named, own_operations, values_read
from relax_mlir.rewrite.patterns import clone
from relax_mlir.schedules.argmax import is_weak_order

__all__ = ["BlockCombiner", "depends_on", "read_block_combiner"]

# Identities of associative and commutative operations; None for idempotent ones, where any
# start value may be combined repeatedly.
_IDENTITIES = {
    "arith.addf": 0,
    "arith.addi": 0,
    "arith.xori": 0,
    "arith.mulf": 1,
    "arith.muli": 1,
    "arith.andi": None,
    "arith.ori": None,
    "arith.maximumf": None,
    "arith.minimumf": None,
    "arith.maxsi": None,
    "arith.minsi": None,
    "arith.maxui": None,
    "arith.minui": None,
}
_NOT_EQUAL = 1  # predicate of arith.cmpi


@dataclass(frozen=True)
class BlockCombiner:
    """The update of a reduction block, in its parts.

    Attributes:
        buffers: hold the accumulators, at ``indices`` in the block's iteration variables.
        value_ops: the operations that compute the new values, and indices.
        new_values: the new value of each accumulator.
        accumulator_loads: the loads of each accumulator.
        combiner_ops: the operations of the combiner.
        results: the updated accumulators.
    """

    buffers: list[ir.Value]
    indices: list[list[ir.Value]]
    value_ops: list[ir.OpView]
    new_values: list[ir.Value]
    accumulator_loads: list[list[ir.Value]]
    combiner_ops: list[ir.OpView]
    results: list[ir.Value]

    def combine(
        self, lhs: Sequence[ir.Value], rhs: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Emits the combiner of two partial results of each accumulator."""
        mapping: dict[ir.Value, ir.Value] = dict(zip(self.new_values, rhs, strict=True))
        for loads, value in zip(self.accumulator_loads, lhs, strict=True):
            mapping.update(dict.fromkeys(loads, value))
        for step in self.combiner_ops:
            clone(step, mapping)
        return [mapping[r] for r in self.results]

    def is_reorderable(self, starts: Sequence[ir.Value]) -> bool:
        """Whether the combiner is associative and commutative, with the start as identity.

        Args:
            starts: the start value of each accumulator.
        """
        return self._is_selection() or all(
            self._is_independent(number, start) for number, start in enumerate(starts)
        )

    def _is_independent(self, number: int, start: ir.Value) -> bool:
        """Whether an accumulator is combined by one known operation, with only its new value."""
        combiner = self.results[number].owner
        operands = list(combiner.operands)
        if combiner.name == "arith.extui":
            combiner = operands[0].owner
            operands = [_tested_byte(v) for v in combiner.operands]
        sides = [self._side_of(v) for v in operands if v is not None]
        if combiner.name not in _IDENTITIES or sorted(
            s for s in sides if s is not None
        ) != [(number, False), (number, True)]:
            return False
        identity = _IDENTITIES[combiner.name]
        return identity is None or (
            _is_constant(start) and start.owner.attributes["value"].value == identity
        )

    def _is_selection(self) -> bool:
        """Whether one comparison selects all results at once, as in argmax."""
        selects = [r.owner for r in self.results]
        if any(o.name != "arith.select" for o in selects):
            return False
        conditions, first, second = zip(*(o.operands for o in selects), strict=True)
        accumulator_loads = [(n, True) for n in range(len(selects))]
        new_values = [(n, False) for n in range(len(selects))]
        chosen = [list(map(self._side_of, values)) for values in (first, second)]
        return (
            chosen in ([accumulator_loads, new_values], [new_values, accumulator_loads])
            and len(set(conditions)) == 1
            and is_weak_order(conditions[0], self._side_of)
        )

    def _side_of(self, value: ir.Value) -> tuple[int, bool] | None:
        """The number of the accumulator that a value belongs to, and whether it is a load."""
        for number, (loads, new_values) in enumerate(
            zip(self.accumulator_loads, self.new_values, strict=True)
        ):
            if value in loads or value == new_values:
                return number, value in loads
        return None


def depends_on(value: ir.Value, targets: set[ir.Value]) -> bool:
    """Whether a value is one of the targets, or computed from one."""
    seen: set[ir.Value] = set()
    todo = [value]
    while todo:
        current = todo.pop()
        if current in targets:
            return True
        if current not in seen and not isinstance(current.owner, ir.Block):
            todo += values_read(current.owner)
        seen.add(current)
    return False


def read_block_combiner(block: BlockOp) -> BlockCombiner | None:
    """Reads the combiner of a reduction block with one accumulator, or several.

    None if the update of an accumulator is not a function of it and of one value that is
    computed without it.
    """
    operations = list(own_operations(block.body.blocks[0]))[:-1]
    stores = operations_named(block.body.blocks[0], "memref.store")
    if any(o not in operations for o in stores):
        return None
    places = [tuple(s.operands)[1:] for s in stores]
    loads = operations_named(block.body.blocks[0], "memref.load")
    targets = {s.operands[1] for s in stores}
    if any(o.operands[0] in targets and o not in operations for o in loads):
        return None  # a branch reads the accumulator
    accumulator_loads = [
        [o.results[0] for o in loads if tuple(o.operands) == p] for p in places
    ]
    loaded = {value for values in accumulator_loads for value in values}
    others = [
        o for o in operations if o not in stores and not loaded.intersection(o.results)
    ]
    combiner_ops = [
        o for o in others if any(depends_on(v, loaded) for v in values_read(o))
    ]
    value_ops = [o for o in others if o not in combiner_ops]
    results = [s.operands[0] for s in stores]
    computed = {r for o in combiner_ops for r in o.results}
    new_values = [_new_value(r, loaded | computed) for r in results]
    booleans = {
        g for g, r in zip(new_values, results, strict=True) if g and g.type != r.type
    }
    combiner_ops = [
        o for o in value_ops if not booleans.isdisjoint(o.results)
    ] + combiner_ops
    value_ops = [o for o in value_ops if booleans.isdisjoint(o.results)]
    new_values = [_tested_byte(g) if g in booleans else g for g in new_values]
    used = {v for o in combiner_ops for v in values_read(o)}
    combiner_ops = [o for o in value_ops if _is_used_number(o, used)] + combiner_ops
    computed = {r for o in combiner_ops for r in o.results}
    known = {g for g in new_values if g is not None}
    if len(known) < len(stores) or not stores:
        return None
    inputs = (
        {v for o in combiner_ops for v in values_read(o)} - loaded - computed - known
    )
    if any(not _is_constant(v) for v in inputs):
        return None
    return BlockCombiner(
        [p[0] for p in places],
        [list(p[1:]) for p in places],
        value_ops,
        [g for g in new_values if g is not None],
        accumulator_loads,
        combiner_ops,
        results,
    )


def _is_used_number(operation: ir.OpView, used: set[ir.Value]) -> bool:
    is_number = operation.operation.name == "arith.constant"
    return is_number and not used.isdisjoint(operation.results)


def _new_value(result: ir.Value, own: set[ir.Value]) -> ir.Value | None:
    """The new value: the one operand of a result that does not depend on accumulators."""
    owner = result.owner
    if isinstance(owner, ir.Block) or result not in own:
        return None
    if owner.name == "arith.extui":
        boolean = _new_value(owner.operands[0], own)
        return None if boolean is None or _tested_byte(boolean) is None else boolean
    candidates = [v for v in values_read(owner) if v not in own and not _is_constant(v)]
    return candidates[0] if len(candidates) == 1 else None


def _tested_byte(boolean: ir.Value) -> ir.Value | None:
    """The byte that a boolean tests for being non-zero."""
    compare = boolean.owner
    if isinstance(compare, ir.Block) or compare.name != "arith.cmpi":
        return None
    byte, zero = compare.operands
    is_zero = _is_constant(zero) and zero.owner.attributes["value"].value == 0
    is_nonzero_test = compare.attributes["predicate"].value == _NOT_EQUAL and is_zero
    return byte if is_nonzero_test else None


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"
