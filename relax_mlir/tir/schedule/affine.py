"""Whether bindings visit every point of a block's grid once: a test of split and fused loops.

A binding is a sum of digits: parts ``loop // lower % extent`` of loops, each times what
the smaller ones count. All digits of all bindings together are all digits of the loops.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.dims import Dim, Expr
from relax_mlir.dialects.monomials import terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.tir.schedule.indices import Limits, simplify, without_units

__all__ = [
    "Digit",
    "are_separate",
    "chained",
    "counting",
    "digits_of",
    "is_affine",
    "is_falling",
    "sum_of_loops",
    "value_of",
    "with_composites",
    "with_divided_sums",
]


@dataclass(frozen=True)
class Digit:
    """``scale * (source // lower % extent)``.

    Attributes:
        source: the symbol of a loop.
    """

    source: str
    lower: Dim
    extent: Dim
    scale: Dim = 1


def digits_of(dim: Dim, extents: Mapping[str, Dim]) -> list[Digit] | None:
    """An expression as a sum of digits, or None.

    Args:
        extents: how many values each loop variable takes; others are no loops.
    """
    rest = dim
    found: list[Digit] = []
    while any(name in extents for name in symbols_of(rest)):
        digit = _leading_digit(rest, extents)
        if digit is None:
            return None
        found.append(digit)
        rest = rest - digit.scale * value_of(digit, extents)
        if len(found) > 32:
            return None
    return found


def value_of(digit: Digit, extents: Mapping[str, Dim]) -> Dim:
    """What a digit is, before it is scaled."""
    quotient = dims.floordiv(dims.symbol(digit.source), digit.lower)
    top = extents[digit.source]
    if digit.lower * digit.extent == top or _covers(digit, top):
        return quotient
    return dims.mod(quotient, digit.extent)


def _covers(digit: Digit, top: Dim) -> bool:
    """Whether a digit is the uppermost of its loop."""
    return dims.ceildiv(top, digit.lower) == digit.extent


def _leading_digit(dim: Dim, extents: Mapping[str, Dim]) -> Digit | None:
    for monomial, factor in terms_of(dim):
        for atom in monomial:
            others = list(monomial)
            others.remove(atom)
            scale = Expr.of({tuple(others): factor})
            if any(n in extents for n in symbols_of(scale)):
                continue
            if atom.op == "symbol" and atom.text in extents:
                return _digit(dim, atom.text, 1, scale, extents)
            if atom.op != "floordiv" or _is_negative(scale):
                continue
            source = _symbol_in(atom.args[0])
            if source in extents:
                return _digit(dim, source, atom.args[1], scale, extents)
    return None


def _is_negative(scale: Dim) -> bool:
    return all(by < 0 for _, by in terms_of(scale))


def _symbol_in(dim: Dim) -> str:
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((monomial, factor),) = dim.terms
        if factor == 1 and len(monomial) == 1 and monomial[0].op == "symbol":
            return monomial[0].text
    return ""


def _digit(
    dim: Dim, source: str, lower: Dim, scale: Dim, extents: Mapping[str, Dim]
) -> Digit:
    """The digit from ``lower`` up to where ``dim`` takes the next ones away."""
    for monomial, factor in terms_of(dim):
        if not monomial or factor >= 0:
            continue
        for atom in monomial:
            if atom.op != "floordiv" or _symbol_in(atom.args[0]) != source:
                continue
            others = list(monomial)
            others.remove(atom)
            taken = Expr.of({tuple(others): -factor})
            extent, rest = dims.divide(taken, scale)
            if rest == 0 and extent * lower == atom.args[1]:
                return Digit(source, lower, extent, scale)
    return Digit(source, lower, dims.ceildiv(extents[source], lower), scale)


def is_affine(
    values: Sequence[Dim],
    extents: Mapping[str, Dim],
    limits: Limits,
    *,
    predicates: Sequence[Dim] = (),
    may_overlap: bool = False,
    may_end_early: bool = False,
) -> bool:
    """Whether the values of axes are independent sums of digits of loops.

    The loops then visit every combination of the values that the axes have.

    Args:
        values: what the axes are.
        extents: how many values each loop takes.
        limits: bounds of symbols.
        predicates: what is not negative where the points are visited; each may leave out
            values of one axis.
        may_overlap: whether a digit may count on before the smaller ones end.
        may_end_early: whether a loop may end before its lower digits do, as one of 10 does
            that is divided by 4: digits stay independent, but 3 * 4 values are not visited.
    """
    values, extents, predicates = with_composites(values, extents, predicates, limits)
    axes: list[list[Digit]] = []
    for value in values:
        digits = digits_of(simplify(value, limits), extents)
        if digits is None or _count(digits, may_overlap=may_overlap) is None:
            return False
        axes.append([d for d in digits if d.extent != 1])
    if not all(_is_of_one_axis(slack, axes, extents) for slack in predicates):
        return False
    return _are_disjoint(
        [d for digits in axes for d in digits], extents, may_end_early=may_end_early
    )


def with_composites(
    values: Sequence[Dim],
    extents: Mapping[str, Dim],
    predicates: Sequence[Dim],
    limits: Limits,
) -> tuple[Sequence[Dim], Mapping[str, Dim], Sequence[Dim]]:
    """One variable in place of the loops that a predicate cuts off together.

    Fusing loops and splitting them by what does not divide leaves ``i * 100 + j < n``:
    that sum takes the place of the loop that there was.

    Returns:
        Values, extents, and the predicates that are left.
    """
    waiting = [without_units(slack, limits) for slack in predicates]
    in_vain = 0
    while in_vain < len(waiting):
        slack = waiting.pop(0)
        total = -sum_of_loops(slack, extents)
        end = slack + total + 1
        digits = digits_of(total, extents) or []
        lowest = next((d for d in digits if d.scale == 1), None)
        count = _count(digits, may_overlap=False)
        if lowest is not None and lowest.lower == 1 and count is not None:
            name = f"relax.sum{len(extents)}_{len(waiting)}"
            rest = total - dims.symbol(lowest.source)
            known = {lowest.source: dims.symbol(name) - rest}
            changed = [
                simplify(substitute(d, known), limits) for d in (*values, *waiting)
            ]
            gone = {d.source for d in digits}
            if not any(gone & set(symbols_of(d)) for d in changed):
                values, waiting = changed[: len(values)], changed[len(values) :]
                kept = {n: e for n, e in extents.items() if n not in gone}
                extents = {**kept, name: dims.minimum(end, count)}
                in_vain = 0
                continue
        in_vain += 1
        if lowest is not None and _ends_with(lowest, digits, end):
            total = total - value_of(lowest, extents)
            slack = _quotient(end, lowest.extent) - 1 - _quotient(total, lowest.extent)
            in_vain = 0
        waiting.append(slack)
    return values, extents, waiting


def with_divided_sums(
    values: Sequence[Dim], extents: Mapping[str, Dim], limits: Limits
) -> tuple[Sequence[Dim], Mapping[str, Dim]]:
    """One variable in place of loops whose sum is divided, as where a fused loop was split.

    Returns:
        Values and extents; those loops take other values exactly where that variable does.
    """
    for names in sorted({n for v in values for n in _divided_sums(v, extents)}):
        if any(name not in extents for name in names):
            continue
        total, count = 0, 1  # as loops count that are nested: names sort by their depth
        for name in reversed(names):
            total, count = total + count * dims.symbol(name), count * extents[name]
        values, extents, _ = with_composites(
            values, extents, [count - 1 - total], limits
        )
    return values, extents


def _divided_sums(dim: Dim, extents: Mapping[str, Dim]) -> set[tuple[str, ...]]:
    """The loops, by the sums of several of them that an expression divides."""
    found: set[tuple[str, ...]] = set()
    for monomial, _ in terms_of(dim):
        for atom in monomial:
            for arg in atom.args if atom.op != "symbol" else ():
                found |= _divided_sums(arg, extents)
                names = sorted(extents.keys() & set(symbols_of(arg)))
                found |= {tuple(names)} if len(names) > 1 else set()
    return found


def _ends_with(lowest: Digit, digits: Sequence[Digit], end: Dim) -> bool:
    """Whether numbers below ``end`` are those whose digits but the lowest are below it."""
    others = [d.scale for d in digits if d is not lowest]
    return all(dims.divide(n, lowest.extent)[1] == 0 for n in (*others, end))


def _quotient(dim: Dim, divisor: Dim) -> Dim:
    quotient, rest = dims.divide(dim, divisor)
    assert rest == 0
    return quotient


def _is_of_one_axis(
    slack: Dim, axes: Sequence[Sequence[Digit]], extents: Mapping[str, Dim]
) -> bool:
    """Whether a predicate depends on the digits of one axis alone."""
    total = sum_of_loops(slack, extents)
    loops = {n for n in symbols_of(total) if extents.get(n, 1) != 1}
    ways = [digits for dim in (total, -total) if (digits := digits_of(dim, extents))]
    for axis in axes:
        others = {d.source for other in axes if other is not axis for d in other}
        whole = {d.source for d in axis} - others
        parts = {(d.source, d.lower, d.extent) for d in axis}
        if loops <= whole or any(
            all(d.source in whole or (d.source, d.lower, d.extent) in parts for d in w)
            for w in ways
        ):
            return True
    return False


def is_falling(dim: Dim, loops: Container[str]) -> bool:
    """Whether an expression counts down with all loops that it depends on."""
    moving = terms_of(sum_of_loops(dim, loops))
    return bool(moving) and all(by < 0 for _, by in moving)


def sum_of_loops(dim: Dim, loops: Container[str]) -> Dim:
    """The part of a sum that depends on loops."""
    found: Dim = 0
    for monomial, factor in terms_of(dim):
        term = Expr.of({monomial: factor})
        if any(n in loops for n in symbols_of(term)):
            found = found + term
    return found


def _count(digits: Sequence[Digit], *, may_overlap: bool) -> Dim | None:
    """How far digits count up in steps of 1, each from where the smaller ones end.

    Returns:
        None if they leave out numbers.
    """
    waiting = [d for d in digits if d.extent != 1]
    end: Dim = 1
    while waiting:
        found = next((d for d in waiting if d.scale == end), None)
        if found is None and may_overlap and end != 1:
            found = next((d for d in waiting if _is_within(d.scale, end)), None)
        if found is None:
            return None
        waiting.remove(found)
        end = found.scale * found.extent
    return end


def _is_within(scale: Dim, end: Dim) -> bool:
    """Whether a scale is surely from 1 to ``end``."""
    return is_known_le(1, scale) and is_known_le(scale, end)


def are_separate(digits: Sequence[Digit]) -> bool:
    """Whether a sum says what each of its digits is: none counts on into another."""
    waiting = [d for d in digits if d.extent != 1]
    end: Dim = 1
    while waiting:
        smallest = next(
            (d for d in waiting if all(is_known_le(d.scale, o.scale) for o in waiting)),
            None,
        )
        if smallest is None or not is_known_le(end, smallest.scale):
            return False
        waiting.remove(smallest)
        end = smallest.scale * smallest.extent
    return True


def chained(digits: Sequence[Digit], extent: Dim) -> list[Digit] | None:
    """Digits of one loop, lowest first, if each ends where the next begins.

    Args:
        extent: how many values the loop takes; the last digit goes up to it.
    """
    waiting = list(digits)
    found: list[Digit] = []
    while waiting:
        following = [
            d
            for d in waiting
            if (
                found[-1].lower * found[-1].extent == d.lower
                if found
                # No divisor is less than 1 where a loop has a step.
                else d.lower == 1 or all(is_known_le(d.lower, o.lower) for o in waiting)
            )
        ]
        if len(following) != 1:
            return None
        found.append(following[0])
        waiting.remove(following[0])
    if not found or not is_known_le(extent, found[-1].lower * found[-1].extent):
        return None
    return found


def counting(digits: Sequence[Digit]) -> list[Digit]:
    """Digits of more than one value; else the first, whose scale says nothing."""
    found = [d for d in digits if d.extent != 1]
    return found or [replace(d, scale=1) for d in digits[:1]]


def _are_disjoint(
    digits: Sequence[Digit], extents: Mapping[str, Dim], *, may_end_early: bool
) -> bool:
    """Whether digits take all their values together: parts of loops, each used once."""
    by_source: dict[str, list[Digit]] = {}
    for digit in digits:
        by_source.setdefault(digit.source, []).append(digit)
    for source, parts in by_source.items():
        lower: Dim = 1
        waiting = [d for d in parts if d.extent != 1]
        while waiting:
            found = next((d for d in waiting if d.lower == lower), None)
            if found is None:
                return False
            waiting.remove(found)
            lower = lower * found.extent
        if not may_end_early and not is_known_le(lower, extents[source]):
            return False
    return True
