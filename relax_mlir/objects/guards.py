"""Guards: arithmetic that keeps a division or a cast defined, which scripts do not spell.

``T.Div(a, b)`` is 0 for b = 0 and ``T.Cast("int32", x)`` saturates, where MLIR's operations
are undefined, so :mod:`.term_writer` emits selects around them. A script spells the
operation alone only where all of what the writer emits is there: a part of it is a choice
of the program's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import element_of
from relax_mlir.dialects.tir.scalars import limits_of
from relax_mlir.objects.index_facts import IndexFacts
from relax_mlir.objects.overwritten_loads import is_term
from relax_mlir.traversal import walk

__all__ = [
    "FLOOR_MOD",
    "GuardedDivision",
    "guarded_division",
    "owner_named",
    "saturates",
    "scalar_constant",
    "spelled_counts",
    "unclamped",
]

_DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi")
)
FLOOR_MOD = "floormod"  # the remainder of `arith.floordivsi`, which no operation is
_EQ, _OGT, _OLT = 0, 2, 4  # predicates of arith.cmpi and arith.cmpf


def owner_named(value: ir.Value, *names: str) -> ir.OpView | None:
    """The operation that makes a value, if it has one of some names."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name not in names:
        return None
    return owner.opview if isinstance(owner, ir.Operation) else owner


def scalar_constant(value: ir.Value) -> float | int | None:
    """The number that a scalar, or each lane of a vector, is a constant of."""
    constant = owner_named(value, "arith.constant")
    if constant is None:
        return None
    attr: Any = constant.attributes["value"]  # Any: the stubs know no numbers
    if isinstance(value.type, ir.VectorType):
        return attr.get_splat_value().value if attr.is_splat else None
    return attr.value


@dataclass(frozen=True)
class GuardedDivision:
    """A division of integers by any divisor, 0 and -1 among them.

    Attributes:
        name: of the operation, or :data:`FLOOR_MOD`.
    """

    name: str
    dividend: ir.Value
    divisor: ir.Value


def guarded_division(select: ir.OpView) -> GuardedDivision | None:
    """The division that an ``arith.select`` is the outermost guard of, if it is one.

    A quotient by 0 is 0, one by -1 the negated dividend, and a remainder 0.
    """
    if isinstance(element_of(select.results[0].type), ir.IndexType):
        return None  # what is divided by 0 there is divided by 1
    tested = _tested(select)
    if tested is None:
        return None
    divisor, number = tested
    rest = select.operands[2]
    if number == 0 and scalar_constant(select.operands[1]) == 0:
        found = _floor_remainder(rest, divisor)
        if found is not None:
            return found
    given = {number: select.operands[1]}
    inner = owner_named(rest, "arith.select")
    while inner is not None:
        tested = _tested(inner)
        if tested is None or tested[0] != divisor or tested[1] in given:
            return None
        given[tested[1]] = inner.operands[1]
        rest = inner.operands[2]
        inner = owner_named(rest, "arith.select")
    division = owner_named(rest, *_DIVISIONS)
    if division is None or not _divides(division, divisor, given):
        return None
    return GuardedDivision(division.operation.name, division.operands[0], divisor)


def _tested(select: ir.OpView) -> tuple[ir.Value, int] | None:
    """What a choice compares with 0 or -1, and with which of them."""
    compare = owner_named(select.operands[0], "arith.cmpi")
    if compare is None:
        return None
    if ir.IntegerAttr(compare.attributes["predicate"]).value != _EQ:
        return None
    number = scalar_constant(compare.operands[1])
    return None if number not in (0, -1) else (compare.operands[0], int(number))


def _divides(
    division: ir.OpView, divisor: ir.Value, given: Mapping[int, ir.Value]
) -> bool:
    """Whether a division is by a divisor, or by 1 where a guard gives the result."""
    dividend, used = division.operands
    while used != divisor:
        select = owner_named(used, "arith.select")
        tested = None if select is None else _tested(select)
        if select is None or tested is None or tested[0] != divisor:
            return False
        if tested[1] not in given or scalar_constant(select.operands[1]) != 1:
            return False
        used = select.operands[2]
    is_quotient = division.operation.name in ("arith.divsi", "arith.floordivsi")
    if division.operation.name in ("arith.divui", "arith.remui") and -1 in given:
        return False
    if 0 in given and scalar_constant(given[0]) != 0:
        return False
    if -1 not in given:
        return True
    if is_quotient:
        return _is_negated(given[-1], dividend)
    return scalar_constant(given[-1]) == 0


def _is_negated(value: ir.Value, dividend: ir.Value) -> bool:
    negated = owner_named(value, "arith.subi")
    if negated is not None:
        is_zero = scalar_constant(negated.operands[0]) == 0
        return is_zero and negated.operands[1] == dividend
    known = scalar_constant(value), scalar_constant(dividend)
    return None not in known and known[0] == -(known[1] or 0)


def _floor_remainder(rest: ir.Value, divisor: ir.Value) -> GuardedDivision | None:
    """``a - a // b * b`` where ``a // b`` is guarded."""
    difference = owner_named(rest, "arith.subi")
    product = None
    if difference is not None:
        product = owner_named(difference.operands[1], "arith.muli")
    if difference is None or product is None or product.operands[1] != divisor:
        return None
    guard = owner_named(product.operands[0], "arith.select")
    quotient = None if guard is None else guarded_division(guard)
    wanted = ("arith.floordivsi", difference.operands[0], divisor)
    if quotient is None or wanted != (
        quotient.name,
        quotient.dividend,
        quotient.divisor,
    ):
        return None
    return GuardedDivision(FLOOR_MOD, quotient.dividend, divisor)


def unclamped(cast: ir.OpView) -> ir.Value:
    """What a float is cast to an integer of, without what keeps it in its range."""
    value, result = cast.operands[0], element_of(cast.results[0].type)
    limits = _limits(cast)
    if limits is None:
        return value
    source, target = limits
    found = value
    low, high = limits_of(source, target)
    for limit, predicate in ((high, _OLT), (low, _OGT)):
        select = owner_named(found, "arith.select")
        if select is None or not _takes_compared(select, predicate):
            return value
        if scalar_constant(select.operands[2]) != limit:
            return value
        found = select.operands[1]
    greatest = 2 ** (result.width - (target.kind == "i")) - 1
    if high == greatest:
        return found
    users = [use.owner.opview for use in cast.results[0].uses]
    is_full = all(_gives_limit(user, cast, found, greatest) for user in users)
    return found if users and is_full else value


def _limits(cast: ir.OpView) -> tuple[dtypes.DType, dtypes.DType] | None:
    """The types between which the writer emits a cast alone; None of others."""
    source, result = element_of(cast.operands[0].type), element_of(cast.results[0].type)
    if source.width not in (32, 64) or result.width not in (8, 16, 32, 64):
        return None
    sign = "u" if cast.operation.name == "arith.fptoui" else ""
    return dtypes.from_mlir(source), dtypes.dtype(f"{sign}int{result.width}")


def _takes_compared(select: ir.OpView, predicate: int) -> bool:
    """Whether a choice is one of the two floats that its condition compares."""
    condition = owner_named(select.operands[0], "arith.cmpf")
    if condition is None:
        return False
    if ir.IntegerAttr(condition.attributes["predicate"]).value != predicate:
        return False
    return list(condition.operands) == list(select.operands)[1:]


def _gives_limit(
    op: ir.OpView, cast: ir.OpView, value: ir.Value, greatest: int
) -> bool:
    """Whether a choice puts in the greatest integer above all floats that are less."""
    if op.operation.name != "arith.select" or op.operands[2] != cast.results[0]:
        return False
    condition = owner_named(op.operands[0], "arith.cmpf")
    clamp = owner_named(cast.operands[0], "arith.select")
    if condition is None or clamp is None:
        return False
    if ir.IntegerAttr(condition.attributes["predicate"]).value != _OGT:
        return False
    if list(condition.operands) != [value, clamp.operands[2]]:
        return False
    given = scalar_constant(op.operands[1])
    bits = element_of(cast.results[0].type).width
    return isinstance(given, int) and (given - greatest) % (1 << bits) == 0


def saturates(select: ir.OpView) -> bool:
    """Whether a choice only puts the limit of an integer type in place of a cast to it."""
    cast = owner_named(select.operands[2], "arith.fptosi", "arith.fptoui")
    limits = None if cast is None else _limits(cast)
    if cast is None or limits is None:
        return False
    found = unclamped(cast)
    greatest = (
        2 ** (element_of(cast.results[0].type).width - (limits[1].kind == "i")) - 1
    )
    is_stripped = found != cast.operands[0]
    return is_stripped and _gives_limit(select, cast, found, greatest)


# How often a term spells its operands, where that is not once.
_REPETITIONS = {
    **dict.fromkeys(("arith.maxnumf", "arith.minnumf"), 3),
    **dict.fromkeys(("arith.ceildivsi", "arith.ceildivui"), 2),
    "math.round": 4,
}
_ONE, _UEQ = 6, 8  # of arith.cmpf: a number that is less or greater, and all else


def _spelled_operands(op: ir.OpView, indices: IndexFacts) -> list[ir.Value]:
    """The values whose terms the term of an operation holds, each as often as it does."""
    name, operands = op.operation.name, list(op.operands)
    if name in _DIVISIONS and isinstance(operands[1].type, ir.IndexType):
        divisor = indices.divisor(operands[1])
        return [operands[0], divisor] if indices.is_pure(divisor) else operands
    if name in ("arith.fptosi", "arith.fptoui"):
        return [unclamped(op)]
    if name == "arith.select":
        division = guarded_division(op)
        if division is not None:
            return [division.dividend, division.divisor]
        return operands[2:] if saturates(op) else operands
    if name == "arith.cmpf":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return operands * (2 if predicate in (_ONE, _UEQ) else 1)
    return operands * _REPETITIONS.get(name, 1)


def spelled_counts(
    function: ir.Operation | ir.OpView, indices: IndexFacts
) -> Counter[ir.Value]:
    """How often terms of a program spell each value.

    What only guards an operation is in no term. Users come after what they use, so those
    that are in a term are known before their operands are counted.
    """
    counts: Counter[ir.Value] = Counter()
    for op in reversed(list(walk(function))):
        operation = op.operation
        around = operation.parent
        if operation.name == "scf.yield" and around is not None and is_term(around):
            pairs = zip(op.operands, around.results, strict=True)
            counts.update(value for value, result in pairs if counts[result])
        elif is_term(operation) and len(operation.results):
            if any(counts[result] for result in operation.results):
                counts.update(_spelled_operands(op, indices))
        else:
            counts.update(op.operands)
    return counts
