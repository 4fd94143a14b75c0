"""Sizes: plain integers, or exact symbolic expressions in one canonical form.

A ``Dim`` is an ``int`` or an ``Expr``. An ``Expr`` is a polynomial with integer
coefficients over atoms: symbols, ``floordiv(a, b)`` and ``min(a, ...)``. The other
functions are spellings of those, so that sizes which different operators compute meet
again as one expression::

    mod(a, b) = a - b * floordiv(a, b)      ceildiv(a, b) = -floordiv(-a, b)
    max(a, b) = a + b - min(a, b)           max(a, ...)   = -min(-a, ...)

``str`` writes them back where that is shorter. Equal canonical forms are equal objects;
two expressions with different forms may still have the same value (``n // 2 + (n + 1)
// 2`` is ``n``); ``symbols.is_known_equal`` proves more than ``==``.

Two assumptions hold throughout: a symbol is a size, so it is >= 0, and a divisor is not
0 (``(n * m) // m`` is ``n``). The file is long because sums, division, minimum, bounds
and text need each other.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from relax_mlir.dialects import intervals
from relax_mlir.dialects.intervals import Range

# Text from a model file must not make us hang; no real size comes near these.
_MAX_DEGREE = 64
_MAX_PRODUCT = 1_000  # terms multiplied out at once
_MAX_BITS = 4096  # of a coefficient
_MAX_MIN_ARGS = 32  # each is compared with each

_MAX_CASES = 4  # of a min that `_relaxed` looks into
_MAX_RELAXED = 5  # calls in a row

_cached = lru_cache(maxsize=1 << 14)


@dataclass(frozen=True, slots=True)
class Atom:
    """A factor of a monomial: a symbol, or a call that no rule takes apart.

    ``text`` is its canonical spelling, and what it is compared by; for a symbol, its
    name. The arguments of ``floordiv`` are numerator and divisor.
    """

    op: Literal["symbol", "floordiv", "min"] = field(compare=False)
    args: tuple["int | Expr", ...] = field(compare=False)
    text: str


Monomial: TypeAlias = tuple[Atom, ...]
Term: TypeAlias = tuple[Monomial, int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """A size that depends on symbols; made by ``symbol`` and operators.

    ``terms`` are (monomial, coefficient), by falling degree, then by name; a monomial
    is a sorted tuple of atoms, with repeats; the constant is the term of the empty
    monomial. A sum that is only a constant is an int instead.
    """

    terms: tuple[Term, ...]
    _hash: int = field(init=False)

    __array_ufunc__ = None  # a numpy scalar on the left must not swallow us: TypeError

    def __post_init__(self) -> None:
        """Hash once: expressions are keys everywhere."""
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        """The hash of the terms."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether the canonical forms are equal."""
        if self is other:
            return True
        if not isinstance(other, Expr) or self._hash != other._hash:
            return False
        return self.terms == other.terms

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickle the terms; the hash of a string differs between processes."""
        return _expr, (self.terms,)

    def __str__(self) -> str:
        """Canonical text, which ``symbols.parse`` reads back."""
        return _text(self)

    def __repr__(self) -> str:
        """The text, marked as an expression."""
        return f"Expr({_text(self)})"

    def __add__(self, other: "int | Expr") -> "int | Expr":
        """The sum."""
        return _add(self, other) if _is_dim(other) else NotImplemented

    def __mul__(self, other: "int | Expr") -> "int | Expr":
        """The product, multiplied out."""
        return _mul(self, other) if _is_dim(other) else NotImplemented

    def __sub__(self, other: "int | Expr") -> "int | Expr":
        """The difference."""
        return _add(self, _mul(-1, other)) if _is_dim(other) else NotImplemented

    def __rsub__(self, other: int) -> "int | Expr":
        """The difference from a number."""
        return _add(other, _mul(-1, self)) if _is_dim(other) else NotImplemented

    def __neg__(self) -> "int | Expr":
        """The negative."""
        return _mul(-1, self)

    def __floordiv__(self, other: "int | Expr") -> "int | Expr":
        """The quotient, rounded down; ``ValueError`` for a divisor of 0."""
        return floordiv(self, other) if _is_dim(other) else NotImplemented

    def __rfloordiv__(self, other: int) -> "int | Expr":
        """The quotient of a number, rounded down."""
        return floordiv(other, self) if _is_dim(other) else NotImplemented

    def __mod__(self, other: "int | Expr") -> "int | Expr":
        """The remainder; ``ValueError`` for a divisor of 0."""
        return mod(self, other) if _is_dim(other) else NotImplemented

    def __rmod__(self, other: int) -> "int | Expr":
        """The remainder of a number."""
        return mod(other, self) if _is_dim(other) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__


Dim: TypeAlias = int | Expr
Ranges: TypeAlias = Mapping[str, tuple[int, int | None]]
_RangeItems: TypeAlias = tuple[tuple[str, tuple[int, int | None]], ...]


def _is_dim(value: object) -> bool:
    return isinstance(value, (int, Expr))


@_cached
def symbol(name: str) -> Expr:
    """A size known only at run time, >= 0.

    Raises:
        ValueError: the name is not a letter or ``_``, then letters, digits, ``_``,
        ``.``.
    """
    plain = name.replace(".", "_")
    if not (plain.isascii() and plain.isidentifier()) or name.startswith("."):
        raise ValueError(
            f"bad symbol name: expected letters, digits, `_`, `.`, got {name!r}"
        )
    return _expr((((Atom("symbol", (), name),), 1),))


# Canonical sums of products.


@lru_cache(maxsize=1 << 16)
def _expr(terms: tuple[Term, ...]) -> Expr:
    return Expr(terms)  # interned: comparing equal expressions is comparing identities


def _atom(op: Literal["floordiv", "min"], *args: Dim) -> Dim:
    text = f"{op}({', '.join(map(str, args))})"
    if op == "floordiv" and isinstance(args[1], int):
        over = args[1] - 1
        if _terms(args[0])[-1] == ((), over):
            text = f"ceildiv({args[0] - over}, {args[1]})"
    return _expr((((Atom(op, args, text),), 1),))


def _terms(dim: Dim) -> tuple[Term, ...]:
    return dim.terms if isinstance(dim, Expr) else (((), dim),)


def _atom_order(atom: Atom) -> str:
    return atom.text if atom.op == "symbol" else "~" + atom.text  # after all letters


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    """Sort key: falling degree, then lexical; multiplication preserves it."""
    return -len(monomial), tuple(map(_atom_order, monomial))


def _build(terms: Mapping[Monomial, int]) -> Dim:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if kept.keys() <= {()}:
        return kept.get((), 0)
    return _expr(tuple(sorted(kept.items(), key=lambda term: _order(term[0]))))


@_cached
def _add(a: Dim, b: Dim) -> Dim:
    total = dict(_terms(a))
    for monomial, factor in _terms(b):
        total[monomial] = total.get(monomial, 0) + factor
    return _build(total)


@_cached
def _mul(a: Dim, b: Dim) -> Dim:
    left, right = _terms(a), _terms(b)
    if len(left) * len(right) > _MAX_PRODUCT:
        raise ValueError("size expression is too large: the product has too many terms")
    total: dict[Monomial, int] = {}
    for monomial, factor in left:
        for other, by in right:
            merged = _times(monomial, other)
            total[merged] = total.get(merged, 0) + factor * by
    if any(factor.bit_length() > _MAX_BITS for factor in total.values()):
        raise ValueError(
            f"size expression is too large: a number of over {_MAX_BITS} bits"
        )
    return _build(total)


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    if len(a) + len(b) > _MAX_DEGREE:
        raise ValueError(f"size expression is too large: degree over {_MAX_DEGREE}")
    return tuple(sorted(a + b, key=_atom_order))


def _over(a: Monomial, b: Monomial) -> Monomial | None:
    """The monomial ``a / b``, or None if ``b`` does not divide ``a``."""
    rest = list(a)
    for atom in b:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


# Division.


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded down.

    Raises:
        ValueError: ``b`` is 0.
    """
    if isinstance(a, int) and isinstance(b, int) and b:
        return a // b
    if b == 0:
        raise ValueError(f"division of `{a}` by zero")
    return _floordiv(a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up; ``-(-a // 2)`` is the same, but another expression.

    Raises:
        ValueError: ``b`` is 0.
    """
    if isinstance(b, int) and b > 0:
        return floordiv(a + (b - 1), b)
    return -floordiv(-a, b)


def mod(a: Dim, b: Dim) -> Dim:
    """The remainder of ``floordiv``, with the sign of ``b``.

    Raises:
        ValueError: ``b`` is 0.
    """
    return a - b * floordiv(a, b)


@_cached
def divide(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Quotient and remainder of ``a = q * b + r``; ``r`` is 0 if ``b`` divides ``a``.

    No term of ``r`` is a multiple of the leading term of ``b``, except for coefficients
    between 0 and the leading one, so ``divide(a + q * b, b)[1]`` does not depend on
    ``q``.

    Raises:
        ValueError: ``b`` is 0.

    Source: multivariate division by one divisor; Cox, Little, O'Shea, section 2.3.
    """
    if b == 0:
        raise ValueError(f"division of `{a}` by zero")
    (lead, lead_factor), *tail = _terms(b)
    work = dict(_terms(a))
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    while work:
        monomial = min(work, key=_order) if tail else next(iter(work))
        factor = work.pop(monomial)
        cofactor = _over(monomial, lead)
        if cofactor is None:
            remainder[monomial] = factor
            continue
        quotient[cofactor], remainder[monomial] = by, _ = divmod(factor, lead_factor)
        for other, other_factor in tail:
            lower = _times(cofactor, other)
            work[lower] = work.get(lower, 0) - by * other_factor
    return _build(quotient), _build(remainder)


@_cached
def _floordiv(a: Dim, b: Dim) -> Dim:
    if _terms(b)[0][1] < 0:
        return _floordiv(-a, -b)
    common = _common_factor(a, b)
    if common != 1:
        return floordiv(divide(a, common)[0], divide(b, common)[0])
    quotient, rest = divide(a, b)
    if isinstance(b, int):
        return quotient + (_fraction(rest, b) if isinstance(rest, Expr) else 0)
    return quotient + _symbolic_fraction(rest, b)


def _common_factor(a: Dim, b: Dim) -> Dim:
    """What cancels in ``a // b``; the constant of ``a`` may be rounded if ``b > 0``."""
    rounded = _terms(a)[:-1] if not _terms(a)[-1][0] and _is_positive(b) else _terms(a)
    common = math.gcd(*(factor for _, factor in (*rounded, *_terms(b))))
    shared = Counter(_terms(b)[0][0])
    for monomial, _ in (*_terms(a), *_terms(b)):
        shared &= Counter(monomial)
    return _build({tuple(sorted(shared.elements(), key=_atom_order)): common})


def _is_positive(divisor: Dim) -> bool:
    return is_known_le(0, divisor)  # and not 0, being a divisor


def _fraction(a: Expr, k: int) -> Dim:
    """``a // k`` where all coefficients lie between 0 and ``k``, in lowest terms."""
    merged = _unnested(a, k)
    if merged is None:
        merged = _within_one_step(a, k)
    if merged is not None:
        return merged
    # floor(a / k) = -floor((k - 1 - a) / k): take the one with smaller coefficients.
    quotient, mirrored = divide(k - 1 - a, k)
    if _factors(mirrored) < _factors(a):
        return -(quotient + _atom("floordiv", mirrored, k))
    return _atom("floordiv", a, k)


def _within_one_step(a: Expr, k: int) -> Dim | None:
    """``a // k`` where bounds tell it, maybe without some multiples of ``k``.

    A remainder is a difference, ``mod(n, 2) = n - 2 * floordiv(n, 2)``, so these are
    the terms with a call or those without: one of the two has become negative again.
    """
    calls = _build({m: 1 for m, _ in a.terms if any(atom.args for atom in m)})
    others = _build(
        {m: 1 for m, _ in a.terms if m and not any(atom.args for atom in m)}
    )
    for multiple in (0, calls, others) if calls != 0 else (0,):
        low, high = bounds(a - k * multiple)
        if low is not None and high is not None and low // k == high // k:
            return multiple + low // k
    return None


def _factors(a: Dim) -> list[int]:
    return [factor for monomial, factor in _terms(a) if monomial]


def _unnested(a: Expr, k: int) -> Dim | None:
    """``(x // y + z) // k`` is ``(x + y * z) // (y * k)``; so with ``-(x // y)``."""
    for monomial, factor in a.terms:
        if len(monomial) != 1 or monomial[0].op != "floordiv":
            continue
        x, y = monomial[0].args
        if not isinstance(y, int) or factor not in (1, k - 1):
            continue
        inner = _build({monomial: 1})
        rest = y * (a - factor * inner)
        if factor == 1:
            return floordiv(x + rest, y * k)
        return inner + floordiv(y - 1 - x + rest, y * k)
    return None


def _symbolic_fraction(a: Dim, b: Expr) -> Dim:
    """``a // b`` in lowest terms, and with no multiple of ``b`` left in ``a``."""
    if a == 0:
        return 0
    if not _is_positive(b):
        return _atom("floordiv", a, b)
    if is_known_le(0, a) and is_known_le(a + 1, b):
        return 0
    if is_known_le(a, -1) and (is_known_le(-1, a) or is_known_le(0, a + b)):
        return -1
    if _terms(a)[0][1] < 0:
        return -1 - floordiv(-1 - a, b)
    return _atom("floordiv", a, b)


# Minimum and maximum.


def minimum(*dims: Dim) -> Dim:
    """The least of one or more sizes."""
    return _minimum(dims)


def maximum(*dims: Dim) -> Dim:
    """The greatest of one or more sizes."""
    return -_minimum(tuple(-dim for dim in dims))


@_cached
def _minimum(dims: tuple[Dim, ...]) -> Dim:
    shift = _extreme(dims, min)  # leaves no term in all arguments, and no negative ones
    rest = [dim - shift for dim in dims]
    common = math.gcd(*(factor for dim in rest for _, factor in _terms(dim))) or 1
    if shift != 0 or common != 1:
        return shift + common * _minimum(tuple(divide(dim, common)[0] for dim in rest))
    args = _least(dims)
    if len(args) == 1:
        return args[0]
    flat = tuple(case for arg in args for case in _flattened(arg))
    return _atom("min", *flat) if flat == dims else _minimum(flat)


def _extreme(dims: Iterable[Dim], pick: Callable[[Iterable[int]], int]) -> Dim:
    """The sum of all terms in ``dims``, each with its least or greatest coefficient."""
    factors = [dict(_terms(dim)) for dim in dims]
    monomials = {monomial for terms in factors for monomial in terms}
    return _build({m: pick(terms.get(m, 0) for terms in factors) for m in monomials})


def _least(dims: Sequence[Dim]) -> list[Dim]:
    """The arguments that matter for a minimum, symbols before constants."""
    if len(dims) > _MAX_MIN_ARGS:
        raise ValueError(
            f"size expression is too large: over {_MAX_MIN_ARGS} arguments"
        )
    kept: list[Dim] = []
    for dim in sorted(set(dims), key=_argument_order):
        if not any(is_known_le(other, dim) for other in kept):
            kept = [other for other in kept if not is_known_le(dim, other)] + [dim]
    return kept


def _argument_order(dim: Dim) -> tuple[bool, str]:
    return isinstance(dim, int), str(dim)


def _flattened(dim: Dim) -> list[Dim]:
    """``min(a, b) + c`` as two arguments, ``a + c`` and ``b + c``, of a minimum."""
    found = [
        (m[0], by)
        for m, by in _terms(dim)
        if len(m) == 1 and m[0].op == "min" and by > 0
    ]
    if len(found) != 1:
        return [dim]
    ((atom, factor),) = found
    rest = dim - _build({(atom,): factor})
    return [rest + factor * arg for arg in atom.args]


# Bounds.


def bounds(dim: Dim, ranges: Ranges | None = None) -> Range:
    """Least and greatest value that arithmetic on intervals finds; None: unbounded.

    Args:
        dim: any size.
        ranges: inclusive bounds of symbols; (0, None) for those not named.
    """
    if isinstance(dim, int):
        return dim, dim
    return _range(dim, tuple(sorted(ranges.items())) if ranges else ())


def is_known_le(a: Dim, b: Dim) -> bool:
    """Whether ``a <= b`` was proved for all symbol values; False says nothing."""
    low = _lower(b - a, (), _MAX_RELAXED)
    return low is not None and low >= 0


@_cached
def _range(dim: Dim, ranges: _RangeItems) -> Range:
    high = _lower(-dim, ranges, _MAX_RELAXED)
    return _lower(dim, ranges, _MAX_RELAXED), None if high is None else -high


@_cached
def _lower(dim: Dim, ranges: _RangeItems, depth: int) -> int | None:
    if isinstance(dim, int):
        return dim
    lows = [_termwise_lower(dim, ranges)]
    if depth and len(dim.terms) > 1:
        lows.append(_relaxed_lower(dim, ranges, depth))
    return intervals.greatest(lows)


def _termwise_lower(dim: Expr, ranges: _RangeItems) -> int | None:
    total = 0
    for monomial, factor in dim.terms:
        edge = _monomial_range(monomial, ranges)[0 if factor > 0 else 1]
        if edge is None:
            return None
        total += factor * edge
    return total


def _relaxed_lower(dim: Expr, ranges: _RangeItems, depth: int) -> int | None:
    """A lower bound of ``dim`` with its first call replaced by linear bounds.

    This keeps what is lost term by term: ``8 * ceildiv(n, 8) - n`` is >= 0.
    """
    for monomial, factor in dim.terms:
        for atom in monomial:
            others = _over(monomial, (atom,)) or ()
            replaced = _relaxed(atom, others, factor)
            if replaced is None or not _is_nonnegative(others, ranges):
                continue
            scale, cases = replaced
            rest = scale * (dim - _build({monomial: factor}))
            lows = [_lower(rest + case, ranges, depth - 1) for case in cases]
            low = (intervals.greatest if factor < 0 else intervals.least_of_all)(lows)
            return None if low is None else -(-low // scale)
    return None


def _relaxed(atom: Atom, others: Monomial, factor: int) -> tuple[int, list[Dim]] | None:
    """A scale, and what lies below ``scale * factor * others * atom``, others >= 0.

    One of several cases is a lower bound; for a negative factor each of them is.
    """
    if atom.op == "min" and len(atom.args) <= _MAX_CASES:
        return 1, [_build({others: factor}) * arg for arg in atom.args]
    if atom.op != "floordiv" or not _is_positive(atom.args[1]):
        return None
    x, y = atom.args
    (monomial, scale), *more = _terms(y)
    cofactor = _over(others, monomial)
    if more or cofactor is None:
        return None
    edge = x if factor < 0 else x - y + 1  # x - y + 1 <= y * floordiv(x, y) <= x
    return scale, [_build({cofactor: factor}) * edge]


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
        return next((limits for name, limits in ranges if name == atom.text), (0, None))
    args = [_range(arg, ranges) for arg in atom.args]
    if atom.op == "min":
        return intervals.minimum(args)
    return intervals.floordiv(*args)


# Text.


@_cached
def _text(expr: Expr) -> str:
    text = ""
    for factor, name in _pieces(expr):
        sign = " - " if factor < 0 else " + "
        size = str(abs(factor)) if not name or abs(factor) != 1 else ""
        text += sign + size + ("*" if size and name else "") + name
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _pieces(dim: Dim) -> list[tuple[int, str]]:
    """Coefficients and spellings of the terms to print."""
    for monomial, factor in _terms(dim):
        for atom in monomial:
            spelled = _respelled(atom, _over(monomial, (atom,)), factor)
            if spelled is None:
                continue
            by, value, text = spelled
            rest = dim - by * value
            if len(_factors(rest)) + 1 < len(_terms(dim)):
                return [(by, text), *(_pieces(rest) if rest != 0 else [])]
    return [
        (factor, "*".join(a.text for a in monomial)) for monomial, factor in _terms(dim)
    ]


def _respelled(
    atom: Atom, others: Monomial | None, by: int
) -> tuple[int, Dim, str] | None:
    """A max or mod with ``by * others * atom`` in it: its factor, value and text."""
    call = _build({(atom,): 1})
    if atom.op == "min" and not others and by < 0:
        total = _extreme(atom.args, max)
        args = sorted((total - arg for arg in atom.args), key=_argument_order)
        return -by, total - call, f"max({', '.join(map(str, args))})"
    if atom.op == "floordiv":
        x, y = atom.args
        monomial, factor = _terms(y)[0]
        if monomial == others and by < 0 and by % factor == 0:
            return -by // factor, x - y * call, f"mod({x}, {y})"
    return None
