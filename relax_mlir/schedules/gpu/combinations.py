"""How a block of a program combines what it has with what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.rewriting import clone
from relax_mlir.schedules.selections import is_weak_order
from relax_mlir.traversal import named, own_operations, values_read

__all__ = ["Combination", "reaches", "read_combination"]

# The start value that operations which take values in any order and groups leave as it is;
# None where a value may be combined twice.
_ANY_ORDER = {
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
_NOT_EQUAL = 1  # of arith.cmpi's predicates


@dataclass(frozen=True)
class Combination:
    """What a reduction does at a point, taken apart.

    Attributes:
        buffers: that hold the results, and where in them: ``indices``, in the block's own
            variables.
        terms: the operations that compute what comes, and those of indices.
        given: what comes, for each result.
        held: for each result, the loads of what is there.
        steps: the operations that combine both.
        results: what they give.
    """

    buffers: list[ir.Value]
    indices: list[list[ir.Value]]
    terms: list[ir.OpView]
    given: list[ir.Value]
    held: list[list[ir.Value]]
    steps: list[ir.OpView]
    results: list[ir.Value]

    def combine(
        self, lhs: Sequence[ir.Value], rhs: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Two partial results of each kind as one, at the insertion point."""
        mapping: dict[ir.Value, ir.Value] = dict(zip(self.given, rhs, strict=True))
        for loads, value in zip(self.held, lhs, strict=True):
            mapping.update(dict.fromkeys(loads, value))
        for step in self.steps:
            clone(step, mapping)
        return [mapping[r] for r in self.results]

    def takes_any_order(self, starts: Sequence[ir.Value]) -> bool:
        """Whether partial results combine to one value in any order and groups.

        Args:
            starts: the value that each partial result begins with.
        """
        return self._is_selection() or all(
            self._is_alone(number, start) for number, start in enumerate(starts)
        )

    def _is_alone(self, number: int, start: ir.Value) -> bool:
        """Whether a result is a sum, product, minimum or the like, of its own values."""
        combiner = self.results[number].owner
        operands = list(combiner.operands)
        if combiner.name == "arith.extui":
            combiner = operands[0].owner
            operands = [_byte_of(v) for v in combiner.operands]
        sides = [self._side_of(v) for v in operands if v is not None]
        if combiner.name not in _ANY_ORDER or sorted(
            s for s in sides if s is not None
        ) != [(number, False), (number, True)]:
            return False
        wanted = _ANY_ORDER[combiner.name]
        return wanted is None or (
            _is_constant(start) and start.owner.attributes["value"].value == wanted
        )

    def _is_selection(self) -> bool:
        """Whether one comparison selects all results, from what is there or what comes."""
        selects = [r.owner for r in self.results]
        if any(o.name != "arith.select" for o in selects):
            return False
        conditions, first, second = zip(*(o.operands for o in selects), strict=True)
        held = [(n, True) for n in range(len(selects))]
        given = [(n, False) for n in range(len(selects))]
        chosen = [list(map(self._side_of, values)) for values in (first, second)]
        return (
            chosen in ([held, given], [given, held])
            and len(set(conditions)) == 1
            and is_weak_order(conditions[0], self._side_of)
        )

    def _side_of(self, value: ir.Value) -> tuple[int, bool] | None:
        """The result that a value is, and whether it is what is there."""
        for number, (loads, given) in enumerate(
            zip(self.held, self.given, strict=True)
        ):
            if value in loads or value == given:
                return number, value in loads
        return None


def reaches(value: ir.Value, targets: set[ir.Value]) -> bool:
    """Whether a value is one of some others, or computed from one."""
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


def read_combination(block: BlockOp) -> Combination | None:
    """The combination of a block that stores one value, or some, with a start value each.

    None if what comes for a result is not one value that is computed without it.
    """
    operations = list(own_operations(block.body.blocks[0]))[:-1]
    stores = named(block.body.blocks[0], "memref.store")
    if any(o not in operations for o in stores):
        return None
    places = [tuple(s.operands)[1:] for s in stores]
    loads = named(block.body.blocks[0], "memref.load")
    targets = {s.operands[1] for s in stores}
    if any(o.operands[0] in targets and o not in operations for o in loads):
        return None  # a branch reads the accumulator
    held = [[o.results[0] for o in loads if tuple(o.operands) == p] for p in places]
    there = {value for values in held for value in values}
    others = [
        o for o in operations if o not in stores and not there.intersection(o.results)
    ]
    steps = [o for o in others if any(reaches(v, there) for v in values_read(o))]
    terms = [o for o in others if o not in steps]
    results = [s.operands[0] for s in stores]
    computed = {r for o in steps for r in o.results}
    given = [_given(r, there | computed) for r in results]
    truths = {g for g, r in zip(given, results, strict=True) if g and g.type != r.type}
    steps = [o for o in terms if not truths.isdisjoint(o.results)] + steps
    terms = [o for o in terms if truths.isdisjoint(o.results)]
    given = [_byte_of(g) if g in truths else g for g in given]
    used = {v for o in steps for v in values_read(o)}
    steps = [o for o in terms if _is_used_number(o, used)] + steps
    computed = {r for o in steps for r in o.results}
    whole = {g for g in given if g is not None}
    if len(whole) < len(stores) or not stores:
        return None
    inputs = {v for o in steps for v in values_read(o)} - there - computed - whole
    if any(not _is_constant(v) for v in inputs):
        return None
    return Combination(
        [p[0] for p in places],
        [list(p[1:]) for p in places],
        terms,
        [g for g in given if g is not None],
        held,
        steps,
        results,
    )


def _is_used_number(operation: ir.OpView, used: set[ir.Value]) -> bool:
    is_number = operation.operation.name == "arith.constant"
    return is_number and not used.isdisjoint(operation.results)


def _given(result: ir.Value, own: set[ir.Value]) -> ir.Value | None:
    """The one operand of what gives a result that does not depend on what is there."""
    owner = result.owner
    if isinstance(owner, ir.Block) or result not in own:
        return None
    if owner.name == "arith.extui":
        truth = _given(owner.operands[0], own)
        return None if truth is None or _byte_of(truth) is None else truth
    found = [v for v in values_read(owner) if v not in own and not _is_constant(v)]
    return found[0] if len(found) == 1 else None


def _byte_of(truth: ir.Value) -> ir.Value | None:
    """The byte that one bit says of whether it is not 0."""
    compare = truth.owner
    if isinstance(compare, ir.Block) or compare.name != "arith.cmpi":
        return None
    byte, zero = compare.operands
    is_zero = _is_constant(zero) and zero.owner.attributes["value"].value == 0
    is_truth = compare.attributes["predicate"].value == _NOT_EQUAL and is_zero
    return byte if is_truth else None


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"
