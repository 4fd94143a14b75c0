"""``schedule-guard-divisions``: defined results of integer division by zero and on overflow."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.vector_math.lanes import Lanes, constant_lanes, select

__all__ = ["GuardDivisions"]

_SIGNED = frozenset(
    f"arith.{name}" for name in ("divsi", "remsi", "ceildivsi", "floordivsi")
)
_UNSIGNED = frozenset(f"arith.{name}" for name in ("divui", "remui", "ceildivui"))
_TRAPPING = {0, -1}  # divisors that trap on some numbers
_EQUAL = 0  # the predicate of arith.cmpi


@dataclass(frozen=True)
class GuardDivisions(Pass):
    """Replace divisors of integer divisions that would be undefined by 1.

    These are 0, and -1 in a signed division of the least integer. Their result is undefined in
    MLIR and LLVM, and traps on some machines. Such divisions occur in masked-off lanes and in
    branches converted to selects. Divisors that are provably neither stay as they are.
    """

    def run(self, module: IRModule) -> None:
        for op in list(walk(module.mlir.operation)):
            name = op.operation.name
            if name not in _SIGNED and name not in _UNSIGNED:
                continue
            dividend, divisor = map(Lanes, op.operands)
            excluded = _excluded(divisor.value)
            with ir.InsertionPoint(op), op.location:
                if 0 not in excluded:
                    divisor = select(divisor.equal(0), divisor.like(1), divisor)
                if name in _SIGNED and -1 not in excluded:
                    overflows = _overflows(dividend, divisor)
                    divisor = select(overflows, divisor.like(1), divisor)
            op.operation.operands[1] = divisor.value


def _excluded(divisor: ir.Value) -> set[int]:
    """The values among 0 and -1 that a divisor provably is not."""
    number = constant_lanes(divisor)
    if number is not None:
        return {n for n in _TRAPPING if n != number}
    owner = divisor.owner
    if isinstance(owner, ir.Block):
        return set()
    if owner.name == "arith.maxsi":  # of a size and a constant
        least = [constant_lanes(v) for v in owner.operands]
        return _TRAPPING if any(n is not None and n > 0 for n in least) else set()
    return _excluded_by_selects(divisor)


def _excluded_by_selects(divisor: ir.Value) -> set[int]:
    """The values among 0 and -1 that selects replace."""
    tested: list[tuple[ir.Value, float | None]] = []
    value = divisor
    while (
        not isinstance(owner := value.owner, ir.Block) and owner.name == "arith.select"
    ):
        condition, chosen, value = owner.operands
        test = condition.owner
        if isinstance(test, ir.Block) or test.name != "arith.cmpi":
            return set()
        if ir.IntegerAttr(test.attributes["predicate"]).value != _EQUAL:
            return set()
        if constant_lanes(chosen) in (None, *_TRAPPING):
            return set()
        tested.append((test.operands[0], constant_lanes(test.operands[1])))
    found = [n for number, n in tested if number == value]
    return {n for n in _TRAPPING if n in found}


def _overflows(dividend: Lanes, divisor: Lanes) -> Lanes:
    """Whether the least integer is divided by -1, by lane."""
    element = dividend.element
    bits = 64 if isinstance(element, ir.IndexType) else element.width
    return dividend.equal(-(1 << (bits - 1))) & divisor.equal(-1)
