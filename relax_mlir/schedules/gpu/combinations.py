"""How a block of a program combines what it has with what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.rewriting import clone
from relax_mlir.traversal import named, own_operations, values_read

__all__ = ["Combination", "reaches", "read_combination"]


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
    used = {v for o in steps for v in values_read(o)}
    steps = [o for o in terms if _is_used_number(o, used)] + steps
    results = [s.operands[0] for s in stores]
    computed = {r for o in steps for r in o.results}
    given = [_given(r, there | computed) for r in results]
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
    found = [v for v in values_read(owner) if v not in own and not _is_constant(v)]
    return found[0] if len(found) == 1 else None


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"
