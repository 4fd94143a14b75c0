"""Recognizes guards of divisions and casts, which TVMScript does not show.

``T.Div(a, b)`` is 0 for b = 0 and ``T.Cast("int32", x)`` saturates, where MLIR's operations
are undefined, so :mod:`relax_mlir.objects.write.prim_expr` emits selects around them. They are
read as the plain operation only if the full pattern is present: parts of it are selects of
the program itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import element_of
from relax_mlir.dialects.tir.scalars import exact_integer_limits
from relax_mlir.ir.traversal import walk
from relax_mlir.objects.overwritten_loads import is_expression
from relax_mlir.objects.prim.index_facts import IndexFacts

__all__ = [
    "FLOOR_MOD",
    "GuardedDivision",
    "defining_op",
    "guarded_division",
    "is_saturation_guard",
    "occurrence_counts",
    "scalar_constant",
    "without_clamp",
]

_DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi")
)
FLOOR_MOD = (
    "floormod"  # remainder of `arith.floordivsi`, which has no operation of its own
)
_EQ, _OGT, _OLT = 0, 2, 4  # predicates of arith.cmpi and arith.cmpf


def defining_op(value: ir.Value, *names: str) -> ir.OpView | None:
    """The operation that defines a value, if its name is among ``names``."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name not in names:
        return None
    return owner.opview if isinstance(owner, ir.Operation) else owner


def scalar_constant(value: ir.Value) -> float | int | None:
    """The value of a constant scalar or splat vector, or None."""
    constant = defining_op(value, "arith.constant")
    if constant is None:
        return None
    attr: Any = constant.attributes["value"]  # Any: the stubs lack numeric attributes
    if isinstance(value.type, ir.VectorType):
        return attr.get_splat_value().value if attr.is_splat else None
    return attr.value


@dataclass(frozen=True)
class GuardedDivision:
    """An integer division that is defined for all divisors, including 0 and -1.

    Attributes:
        name: of the operation, or :data:`FLOOR_MOD`.
    """

    name: str
    dividend: ir.Value
    divisor: ir.Value


def guarded_division(select: ir.OpView) -> GuardedDivision | None:
    """The division whose outermost guard is an ``arith.select``, or None.

    A quotient by 0 is 0, one by -1 the negated dividend, a remainder 0.
    """
    if isinstance(element_of(select.results[0].type), ir.IndexType):
        return None  # index divisions use a divisor of 1 in place of 0
    tested = _tested(select)
    if tested is None:
        return None
    divisor, number = tested
    rest = select.operands[2]
    if number == 0 and scalar_constant(select.operands[1]) == 0:
        unguarded = _floor_remainder(rest, divisor)
        if unguarded is not None:
            return unguarded
    guards = {number: select.operands[1]}
    inner = defining_op(rest, "arith.select")
    while inner is not None:
        tested = _tested(inner)
        if tested is None or tested[0] != divisor or tested[1] in guards:
            return None
        guards[tested[1]] = inner.operands[1]
        rest = inner.operands[2]
        inner = defining_op(rest, "arith.select")
    division = defining_op(rest, *_DIVISIONS)
    if division is None or not _is_guarded_by(division, divisor, guards):
        return None
    return GuardedDivision(division.operation.name, division.operands[0], divisor)


def _tested(select: ir.OpView) -> tuple[ir.Value, int] | None:
    """The operand that a select compares with 0 or -1, and that constant."""
    compare = defining_op(select.operands[0], "arith.cmpi")
    if compare is None:
        return None
    if ir.IntegerAttr(compare.attributes["predicate"]).value != _EQ:
        return None
    number = scalar_constant(compare.operands[1])
    return None if number not in (0, -1) else (compare.operands[0], int(number))


def _is_guarded_by(
    division: ir.OpView, divisor: ir.Value, guards: Mapping[int, ir.Value]
) -> bool:
    """Whether a division has the divisor, replaced by 1 where a guard gives the result."""
    dividend, used = division.operands
    while used != divisor:
        select = defining_op(used, "arith.select")
        tested = None if select is None else _tested(select)
        if select is None or tested is None or tested[0] != divisor:
            return False
        if tested[1] not in guards or scalar_constant(select.operands[1]) != 1:
            return False
        used = select.operands[2]
    is_quotient = division.operation.name in ("arith.divsi", "arith.floordivsi")
    if division.operation.name in ("arith.divui", "arith.remui") and -1 in guards:
        return False
    if 0 in guards and scalar_constant(guards[0]) != 0:
        return False
    if -1 not in guards:
        return True
    if is_quotient:
        return _is_negated(guards[-1], dividend)
    return scalar_constant(guards[-1]) == 0


def _is_negated(value: ir.Value, dividend: ir.Value) -> bool:
    negated = defining_op(value, "arith.subi")
    if negated is not None:
        is_zero = scalar_constant(negated.operands[0]) == 0
        return is_zero and negated.operands[1] == dividend
    known = scalar_constant(value), scalar_constant(dividend)
    return None not in known and known[0] == -(known[1] or 0)


def _floor_remainder(rest: ir.Value, divisor: ir.Value) -> GuardedDivision | None:
    """Matches ``a - a // b * b`` with a guarded ``a // b``."""
    difference = defining_op(rest, "arith.subi")
    product = None
    if difference is not None:
        product = defining_op(difference.operands[1], "arith.muli")
    if difference is None or product is None or product.operands[1] != divisor:
        return None
    guard = defining_op(product.operands[0], "arith.select")
    quotient = None if guard is None else guarded_division(guard)
    expected = ("arith.floordivsi", difference.operands[0], divisor)
    if quotient is None or expected != (
        quotient.name,
        quotient.dividend,
        quotient.divisor,
    ):
        return None
    return GuardedDivision(FLOOR_MOD, quotient.dividend, divisor)


def without_clamp(cast: ir.OpView) -> ir.Value:
    """The operand of a float-to-integer cast without the clamp to the integer's range."""
    value, result = cast.operands[0], element_of(cast.results[0].type)
    limits = _limits(cast)
    if limits is None:
        return value
    source, target = limits
    unguarded = value
    low, high = exact_integer_limits(source, target)
    for limit, predicate in ((high, _OLT), (low, _OGT)):
        select = defining_op(unguarded, "arith.select")
        if select is None or not _is_min_or_max(select, predicate):
            return value
        if scalar_constant(select.operands[2]) != limit:
            return value
        unguarded = select.operands[1]
    greatest = 2 ** (result.width - (target.kind == "i")) - 1
    if high == greatest:
        return unguarded
    users = [use.owner.opview for use in cast.results[0].uses]
    is_full = all(_is_limit_select(user, cast, unguarded, greatest) for user in users)
    return unguarded if users and is_full else value


def _limits(cast: ir.OpView) -> tuple[dtypes.DType, dtypes.DType] | None:
    """The types of a cast that the writer emits with a clamp; None for others."""
    source, result = element_of(cast.operands[0].type), element_of(cast.results[0].type)
    if source.width not in (32, 64) or result.width not in (8, 16, 32, 64):
        return None
    sign = "u" if cast.operation.name == "arith.fptoui" else ""
    return dtypes.from_mlir(source), dtypes.dtype(f"{sign}int{result.width}")


def _is_min_or_max(select: ir.OpView, predicate: int) -> bool:
    """Whether a select is a minimum or maximum of the operands that it compares."""
    condition = defining_op(select.operands[0], "arith.cmpf")
    if condition is None:
        return False
    if ir.IntegerAttr(condition.attributes["predicate"]).value != predicate:
        return False
    return list(condition.operands) == list(select.operands)[1:]


def _is_limit_select(
    op: ir.OpView, cast: ir.OpView, value: ir.Value, greatest: int
) -> bool:
    """Whether a select replaces the cast of values above the clamp by the greatest integer."""
    if op.operation.name != "arith.select" or op.operands[2] != cast.results[0]:
        return False
    condition = defining_op(op.operands[0], "arith.cmpf")
    clamp = defining_op(cast.operands[0], "arith.select")
    if condition is None or clamp is None:
        return False
    if ir.IntegerAttr(condition.attributes["predicate"]).value != _OGT:
        return False
    if list(condition.operands) != [value, clamp.operands[2]]:
        return False
    guards = scalar_constant(op.operands[1])
    bits = element_of(cast.results[0].type).width
    return isinstance(guards, int) and (guards - greatest) % (1 << bits) == 0


def is_saturation_guard(select: ir.OpView) -> bool:
    """Whether a select only completes the saturation of a float-to-integer cast."""
    cast = defining_op(select.operands[2], "arith.fptosi", "arith.fptoui")
    limits = None if cast is None else _limits(cast)
    if cast is None or limits is None:
        return False
    unguarded = without_clamp(cast)
    greatest = (
        2 ** (element_of(cast.results[0].type).width - (limits[1].kind == "i")) - 1
    )
    is_stripped = unguarded != cast.operands[0]
    return is_stripped and _is_limit_select(select, cast, unguarded, greatest)


# Number of times that an expression repeats its operands, if not once.
_REPETITIONS = {
    **dict.fromkeys(("arith.maxnumf", "arith.minnumf"), 3),
    **dict.fromkeys(("arith.ceildivsi", "arith.ceildivui"), 2),
    "math.round": 4,
}
_ONE, _UEQ = 6, 8  # predicates of arith.cmpf: ordered not equal, unordered or equal


def _expression_operands(op: ir.OpView, indices: IndexFacts) -> list[ir.Value]:
    """The operands in the expression of an operation, with repetitions."""
    name, operands = op.operation.name, list(op.operands)
    if name in _DIVISIONS and isinstance(operands[1].type, ir.IndexType):
        divisor = indices.divisor(operands[1])
        return [operands[0], divisor] if indices.is_pure(divisor) else operands
    if name in ("arith.fptosi", "arith.fptoui"):
        return [without_clamp(op)]
    if name == "arith.select":
        division = guarded_division(op)
        if division is not None:
            return [division.dividend, division.divisor]
        return operands[2:] if is_saturation_guard(op) else operands
    if name == "arith.cmpf":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return operands * (2 if predicate in (_ONE, _UEQ) else 1)
    return operands * _REPETITIONS.get(name, 1)


def occurrence_counts(
    function: ir.Operation | ir.OpView, indices: IndexFacts
) -> Counter[ir.Value]:
    """The number of occurrences of each value in expressions of a PrimFunc.

    Guards do not count. Users are visited before their operands, so it is known whether
    a user is part of an expression.
    """
    counts: Counter[ir.Value] = Counter()
    for op in reversed(list(walk(function))):
        operation = op.operation
        parent = operation.parent
        if (
            operation.name == "scf.yield"
            and parent is not None
            and is_expression(parent)
        ):
            pairs = zip(op.operands, parent.results, strict=True)
            counts.update(value for value, result in pairs if counts[result])
        elif is_expression(operation) and len(operation.results):
            if any(counts[result] for result in operation.results):
                counts.update(_expression_operands(op, indices))
        else:
            counts.update(op.operands)
    return counts
