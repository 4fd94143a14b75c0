"""Inverses of maps of indices that take numbers apart and put them together.

Each new index is a sum of digits of the old ones (see :mod:`.affine`), so an old index is
the sum of the digits that the new ones hold. Where the digits can spell more numbers than
there are, what is too much is padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.monomials import Atom, terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.sizes import Symbols
from relax_mlir.tir.schedule import affine
from relax_mlir.tir.schedule.affine import Digit
from relax_mlir.tir.schedule.indices import simplify

__all__ = ["Excess", "Inverse", "invert", "padding_term", "place"]


@dataclass(frozen=True)
class Excess:
    """Padding: where the upper digits are ``top`` and the lower ones out of range.

    Attributes:
        upper: an expression in the new indices.
        lower: another one.
        bound: what is compared with ``lower``.
        is_below: whether ``lower`` is too small; else too large.
        is_greatest: whether ``bound`` is the greatest value of ``lower``.
    """

    upper: Dim
    top: Dim
    lower: Dim
    bound: Dim
    is_below: bool
    is_greatest: bool = False


@dataclass(frozen=True)
class Inverse:
    """The old indices in terms of the new ones.

    Attributes:
        values: what each is, in the symbols of :func:`place`.
        padding: where no old index is mapped to.
    """

    values: Mapping[str, Dim]
    padding: Sequence[Excess] = ()


@dataclass
class _Sum:
    """A sum of indices that is divided as a whole.

    Attributes:
        name: the symbol in its place.
        digits: what it is made of.
        start: what it begins at.
    """

    name: str
    digits: Sequence[Digit]
    start: Dim
    extents: dict[str, Dim] = field(default_factory=dict)


def place(number: int) -> str:
    """The symbol of a new index."""
    return f"relax.place{number}"


def invert(final: Sequence[Dim], extents: Mapping[str, Dim]) -> Inverse | None:
    """The inverse of a map, or None where it is not found.

    Args:
        final: the new indices.
        extents: how many values each old index takes, from 0 on.
    """
    known = {n: e for n, e in extents.items() if e != 1}
    units: dict[str, Dim] = {n: 0 for n, e in extents.items() if e == 1}
    final = [substitute(f, units) for f in final]
    combined = _with_sums(final, known)
    if combined is None:
        return None
    final, known, sums = combined
    spelled = _spelled(final, known, sums)
    if spelled is None:
        return None
    values, padding = spelled
    for one in reversed(sums):
        value = values.pop(one.name) - one.start
        for digit in one.digits:
            part = _digit_of(value, digit, one.digits)
            values[digit.source] = values.get(digit.source, 0) + digit.lower * part
    if set(values) != {n for n, e in extents.items() if e != 1}:
        return None
    return Inverse({**values, **units}, padding)


def _digit_of(value: Dim, digit: Digit, others: Sequence[Digit]) -> Dim:
    """A digit of a number; the greatest one needs no remainder."""
    quotient = dims.floordiv(value, digit.scale)
    scales = [d.scale for d in others if d.extent != 1]
    is_top = all(
        s == digit.scale or dims.divide(digit.scale, s)[1] == 0 for s in scales
    )
    return quotient if is_top else dims.mod(quotient, digit.extent)


def _divided_sum(final: Sequence[Dim], known: Mapping[str, Dim]) -> Dim | None:
    """A sum of indices of which there is a quotient, innermost first."""
    for dim in final:
        for atom in _atoms(dim):
            if atom.op != "floordiv":
                continue
            inner = _divided_sum([atom.args[0]], known)
            if inner is not None:
                return inner
            mentioned = [n for n in symbols_of(atom.args[0]) if n in known]
            if mentioned and atom.args[0] != dims.symbol(mentioned[0]):
                return atom.args[0]
    return None


def _atoms(dim: Dim) -> list[Atom]:
    return [atom for monomial, _ in terms_of(dim) for atom in monomial]


def _with_sums(
    final: Sequence[Dim], extents: Mapping[str, Dim]
) -> tuple[list[Dim], dict[str, Dim], list[_Sum]] | None:
    """One symbol in place of each sum of indices that is divided as a whole."""
    sums: list[_Sum] = []
    known = dict(extents)
    listed = list(final)
    while (total := _divided_sum(listed, known)) is not None:
        digits = affine.digits_of(total, known)
        if digits is None or not _counts(digits) or len(sums) > 8:
            return None
        whole: Dim = 0
        count: Dim = 1
        for digit in digits:
            whole = whole + digit.scale * affine.value_of(digit, known)
            count = count * digit.extent
        start = total - whole
        smallest = next((d for d in digits if d.scale == 1), None)
        if smallest is None or symbols_of(start):
            return None
        name = f"relax.sum{len(sums)}"
        lower, source = smallest.lower, dims.symbol(smallest.source)
        others = total - dims.floordiv(source, lower)
        value = dims.symbol(name) - lower * others
        listed = [substitute(d, {smallest.source: value}) for d in listed]
        digits = [_without_lower(d, smallest) for d in digits]
        start, count = lower * start, lower * count
        gone = {d.source for d in digits}
        if any(gone & set(symbols_of(d)) for d in listed):
            return None
        known = {n: e for n, e in known.items() if n not in gone}
        known[name] = count
        sums.append(_Sum(name, digits, start))
        if start:
            known[name] = count + start
    limits = {n: (0, e - 1 if isinstance(e, int) else None) for n, e in known.items()}
    return [simplify(d, limits) for d in listed], known, sums


def _without_lower(digit: Digit, smallest: Digit) -> Digit:
    """A digit of a sum that is multiplied so that the smallest one is a whole index."""
    lower = smallest.lower
    if digit is smallest:
        return Digit(digit.source, 1, digit.extent * lower)
    return Digit(digit.source, digit.lower, digit.extent, digit.scale * lower)


def _counts(digits: Sequence[Digit]) -> bool:
    """Whether digits count up in steps of 1."""
    expected: Dim = 1
    waiting = [d for d in digits if d.extent != 1]
    while waiting:
        found = next((d for d in waiting if d.scale == expected), None)
        if found is None:
            return False
        waiting.remove(found)
        expected = found.scale * found.extent
    return True


def _spelled(
    final: Sequence[Dim], known: Mapping[str, Dim], sums: Sequence[_Sum]
) -> tuple[dict[str, Dim], list[Excess]] | None:
    """What each symbol is in terms of the new indices, and where that is padding."""
    parts: dict[str, list[tuple[Digit, Dim]]] = {}
    for number, dim in enumerate(final):
        digits = affine.digits_of(dim, known)
        if digits is None or not _counts(digits):
            return None
        rest = dim
        for digit in digits:
            rest = rest - digit.scale * affine.value_of(digit, known)
            value = _digit_of(dims.symbol(place(number)), digit, digits)
            if digit.extent != 1:
                parts.setdefault(digit.source, []).append((digit, value))
        if rest != 0:
            return None
    values: dict[str, Dim] = {}
    padding: list[Excess] = []
    starts = {one.name: one.start for one in sums}
    for name, extent in known.items():
        ordered = _ordered(parts.get(name, []))
        if ordered is None:
            return None
        values[name] = 0
        for digit, value in ordered:
            values[name] = values[name] + digit.lower * value
        top = ordered[-1][0] if ordered else None
        if top is None or not _reaches(top, extent):
            return None
        padding += _excess(ordered, extent, starts.get(name, 0))
    return values, padding


def _reaches(top: Digit, extent: Dim) -> bool:
    """Whether a digit is the uppermost of a number."""
    return dims.ceildiv(extent, top.lower) == top.extent


def _ordered(parts: Sequence[tuple[Digit, Dim]]) -> list[tuple[Digit, Dim]] | None:
    """Digits from the lowest up, each where the one before ends; None if some lack."""
    waiting = list(parts)
    found: list[tuple[Digit, Dim]] = []
    lower: Dim = 1
    while waiting:
        fits = next((p for p in waiting if p[0].lower == lower), None)
        if fits is None:
            return None
        waiting.remove(fits)
        found.append(fits)
        lower = lower * fits[0].extent
    return found


def _excess(
    ordered: Sequence[tuple[Digit, Dim]], extent: Dim, start: Dim
) -> list[Excess]:
    """Where digits spell numbers below ``start``, or from ``extent`` on."""
    top, upper = ordered[-1]
    lower: Dim = 0
    for digit, value in ordered[:-1]:
        lower = lower + digit.lower * value
    found: list[Excess] = []
    below, more = dims.floordiv(start, top.lower), dims.mod(start, top.lower)
    if below != 0:
        found.append(Excess(0, 0, upper, below, is_below=True))
    if more != 0:
        found.append(Excess(upper, below, lower, more, is_below=True))
    rest = dims.mod(extent, top.lower)
    if rest != 0:
        above = dims.floordiv(extent, top.lower)
        is_greatest = rest == top.lower - 1
        found.append(Excess(upper, above, lower, rest, False, is_greatest))
    return found


def padding_term(padding: Sequence[Excess], symbols: Symbols) -> PrimExpr:
    """Where there is padding, as a condition."""
    total: PrimExpr = prim.const(False)
    for number, one in enumerate(padding):
        upper, top, lower, bound = map(
            symbols.term, (one.upper, one.top, one.lower, one.bound)
        )
        side = prim.LT(lower, bound) if one.is_below else prim.LE(bound, lower)
        side = prim.EQ(lower, bound) if one.is_greatest else side
        condition = (
            side if one.upper == one.top else prim.And(prim.EQ(upper, top), side)
        )
        total = prim.Or(total, condition) if number else condition
    return total
