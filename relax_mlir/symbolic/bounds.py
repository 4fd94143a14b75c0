"""Bounds of symbolic sizes over all values of their symbols, by interval arithmetic."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.intervals import Range
from relax_mlir.symbolic.monomials import Atom, Monomial, divide_monomials, terms_of

if TYPE_CHECKING:
    from relax_mlir.symbolic.dims import Dim, Expr

Ranges: TypeAlias = Mapping[str, Range]
_RangeItems: TypeAlias = tuple[tuple[str, Range], ...]

SIGNED = ".signed"  # suffix of symbols that may be negative
_MAX_CASES = 4  # arguments of a min that `_relaxed` expands
_MAX_RELAXED = 5  # nested relaxations

_cached = lru_cache(maxsize=1 << 14)


def bounds(dim: "Dim", ranges: Ranges | None = None) -> Range:
    """The least and greatest value by interval arithmetic; None for unbounded.

    Args:
        dim: any size.
        ranges: inclusive bounds of symbols; others are sizes, (0, None), unless
            their names end in ``SIGNED``.
    """
    if isinstance(dim, int):
        return dim, dim
    return _range(dim, tuple(sorted(ranges.items(), key=_name)) if ranges else ())


def _name(item: tuple[str, Range]) -> str:
    return item[0]


def is_known_le(a: "Dim", b: "Dim") -> bool:
    """Whether ``a <= b`` is proved for all symbol values; False means unknown."""
    low = _lower(b - a, (), _MAX_RELAXED)
    return low is not None and low >= 0


@_cached
def _range(dim: "Dim", ranges: _RangeItems) -> Range:
    high = _lower(-dim, ranges, _MAX_RELAXED)
    return _lower(dim, ranges, _MAX_RELAXED), None if high is None else -high


@_cached
def _lower(dim: "Dim", ranges: _RangeItems, depth: int) -> int | None:
    if isinstance(dim, int):
        return dim
    lows = [_termwise_lower(dim, ranges)]
    if depth and len(dim.terms) > 1:
        lows.append(_relaxed_lower(dim, ranges, depth))
    return intervals.tightest_lower(lows)


def _termwise_lower(dim: "Expr", ranges: _RangeItems) -> int | None:
    total = 0
    for monomial, coefficient in dim.terms:
        low, _ = intervals.scaled(_monomial_range(monomial, ranges), coefficient)
        if low is None:
            return None
        total += low
    return total


def _relaxed_lower(dim: "Expr", ranges: _RangeItems, depth: int) -> int | None:
    """A lower bound of ``dim`` with its first call replaced by linear bounds.

    It keeps correlations that termwise bounds lose: ``8 * ceildiv(n, 8) - n`` is >= 0.
    """
    for monomial, coefficient in dim.terms:
        for atom in monomial:
            others = divide_monomials(monomial, (atom,)) or ()
            replaced = _relaxed(dim, atom, others, coefficient)
            if replaced is None or not _is_nonnegative(others, ranges):
                continue
            scale, cases = replaced
            rest = scale * (dim - dim.of({monomial: coefficient}))
            lows = [_lower(rest + case, ranges, depth - 1) for case in cases]
            low = (
                intervals.tightest_lower if coefficient < 0 else intervals.lower_of_all
            )(lows)
            return None if low is None else -(-low // scale)
    return None


def _relaxed(
    dim: "Expr", atom: Atom, others: Monomial, coefficient: int
) -> tuple[int, list["Dim"]] | None:
    """A scale and lower bounds of ``scale * coefficient * others * atom``, for others >= 0.

    One of several cases is a lower bound; for a negative coefficient each of them is.
    """
    if atom.op == "min" and len(atom.args) <= _MAX_CASES:
        return 1, [dim.of({others: coefficient}) * arg for arg in atom.args]
    if atom.op != "floordiv" or not is_known_le(0, atom.args[1]):
        return None
    x, y = atom.args
    (monomial, scale), *more = terms_of(y)
    cofactor = divide_monomials(others, monomial)
    if more or cofactor is None:
        return None
    edge = x if coefficient < 0 else x - y + 1  # x - y + 1 <= y * floordiv(x, y) <= x
    return scale, [dim.of({cofactor: coefficient}) * edge]


def _is_nonnegative(monomial: Monomial, ranges: _RangeItems) -> bool:
    low = _monomial_range(monomial, ranges)[0]
    return low is not None and low >= 0


def _monomial_range(monomial: Monomial, ranges: _RangeItems) -> Range:
    result: Range = 1, 1
    for atom in monomial:
        result = intervals.product(result, _atom_range(atom, ranges))
    return result


def _atom_range(atom: Atom, ranges: _RangeItems) -> Range:
    if atom.op == "symbol":
        unknown = (None if atom.text.endswith(SIGNED) else 0), None
        return next((limits for name, limits in ranges if name == atom.text), unknown)
    args = [_range(arg, ranges) for arg in atom.args]
    if atom.op == "min":
        return intervals.minimum(args)
    return intervals.floordiv(*args)
