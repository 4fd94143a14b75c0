"""Bounds of sizes: what is known of their values whatever the symbols are."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from relax_mlir.dialects import intervals
from relax_mlir.dialects.intervals import Range
from relax_mlir.dialects.monomials import Atom, Monomial, over, terms_of

if TYPE_CHECKING:
    from relax_mlir.dialects.dims import Dim, Expr

Ranges: TypeAlias = Mapping[str, Range]
_RangeItems: TypeAlias = tuple[tuple[str, Range], ...]

SIGNED = ".signed"  # ends the names of symbols that are no sizes, but any integer
_MAX_CASES = 4  # of a min that `_relaxed` looks into
_MAX_RELAXED = 5  # calls in a row

_cached = lru_cache(maxsize=1 << 14)


def bounds(dim: "Dim", ranges: Ranges | None = None) -> Range:
    """Least and greatest value that arithmetic on intervals finds; None: unbounded.

    Args:
        dim: any size.
        ranges: inclusive bounds of symbols; those not named are sizes, (0, None), unless
            their names end in ``SIGNED``.
    """
    if isinstance(dim, int):
        return dim, dim
    return _range(dim, tuple(sorted(ranges.items(), key=_name)) if ranges else ())


def _name(item: tuple[str, Range]) -> str:
    return item[0]


def is_known_le(a: "Dim", b: "Dim") -> bool:
    """Whether ``a <= b`` was proved for all symbol values; False says nothing."""
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
    return intervals.greatest(lows)


def _termwise_lower(dim: "Expr", ranges: _RangeItems) -> int | None:
    total = 0
    for monomial, factor in dim.terms:
        edge = _monomial_range(monomial, ranges)[0 if factor > 0 else 1]
        if edge is None:
            return None
        total += factor * edge
    return total


def _relaxed_lower(dim: "Expr", ranges: _RangeItems, depth: int) -> int | None:
    """A lower bound of ``dim`` with its first call replaced by linear bounds.

    This keeps what is lost term by term: ``8 * ceildiv(n, 8) - n`` is >= 0.
    """
    for monomial, factor in dim.terms:
        for atom in monomial:
            others = over(monomial, (atom,)) or ()
            replaced = _relaxed(dim, atom, others, factor)
            if replaced is None or not _is_nonnegative(others, ranges):
                continue
            scale, cases = replaced
            rest = scale * (dim - dim.of({monomial: factor}))
            lows = [_lower(rest + case, ranges, depth - 1) for case in cases]
            low = (intervals.greatest if factor < 0 else intervals.least_of_all)(lows)
            return None if low is None else -(-low // scale)
    return None


def _relaxed(
    dim: "Expr", atom: Atom, others: Monomial, factor: int
) -> tuple[int, list["Dim"]] | None:
    """A scale, and what lies below ``scale * factor * others * atom``, others >= 0.

    One of several cases is a lower bound; for a negative factor each of them is.
    """
    if atom.op == "min" and len(atom.args) <= _MAX_CASES:
        return 1, [dim.of({others: factor}) * arg for arg in atom.args]
    if atom.op != "floordiv" or not is_known_le(0, atom.args[1]):
        return None
    x, y = atom.args
    (monomial, scale), *more = terms_of(y)
    cofactor = over(others, monomial)
    if more or cofactor is None:
        return None
    edge = x if factor < 0 else x - y + 1  # x - y + 1 <= y * floordiv(x, y) <= x
    return scale, [dim.of({cofactor: factor}) * edge]


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
