"""Sizes: plain integers, or exact symbolic expressions in one canonical form.

A ``Dim`` is an ``int`` or an ``Expr``. An ``Expr`` is a polynomial with integer
coefficients over atoms: symbols, ``floordiv(a, b)`` and ``min(a, ...)``. The other
functions are defined by these, so that equal sizes from different operators have the
same canonical form::

    mod(a, b) = a - b * floordiv(a, b)      ceildiv(a, b) = -floordiv(-a, b)
    max(a, b) = a + b - min(a, b)           max(a, ...)   = -min(-a, ...)

``str`` prints them where that is shorter. Equal canonical forms are equal objects;
two expressions with different forms may still have the same value (``n // 2 + (n + 1)
// 2`` is ``n``); ``symbols.is_known_equal`` proves more than ``==``.

Two assumptions hold throughout: a symbol is a size, so it is >= 0, and a divisor is not
0 (``(n * m) // m`` is ``n``). Symbols whose names end in ``bounds.SIGNED`` stand for
other integers, such as indices loaded from memory.

``monomials`` has the terms of expressions, ``bounds`` bounds of their values, and ``text``
their printer; these do not import this module.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from relax_mlir.symbolic.bounds import bounds, is_known_le
from relax_mlir.symbolic.monomials import (
    Atom,
    Monomial,
    Term,
    atom_order,
    coefficients,
    divide_monomials,
    extreme_coefficients,
    monomial_order,
    multiply_monomials,
    terms_of,
)
from relax_mlir.symbolic.text import argument_order, text_of

# Limits against denial of service by model files, far above real sizes.
_MAX_PRODUCT = 1_000  # terms of a product
_MAX_BITS = 4096  # of a coefficient
_MAX_MIN_ARGS = 32  # compared pairwise

_cached = lru_cache(maxsize=1 << 14)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """A size that depends on symbols; created by ``symbol`` and operators.

    ``terms`` are (monomial, coefficient), by descending degree, then by name; a monomial
    is a sorted tuple of atoms, with repeats; the constant is the term of the empty
    monomial. A sum that is only a constant is an int instead.
    """

    terms: tuple[Term, ...]
    _hash: int = field(init=False)

    __array_ufunc__ = None  # numpy scalars on the left must not broadcast over it

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
        return text_of(self)

    def __repr__(self) -> str:
        """The text, marked as an expression."""
        return f"Expr({text_of(self)})"

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> "int | Expr":
        """The sum of monomials by their coefficients."""
        return _build(terms)

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


def _is_dim(value: object) -> bool:
    return isinstance(value, (int, Expr))


@_cached
def symbol(name: str) -> Expr:
    """A size known only at run time, >= 0 (but see :data:`.bounds.SIGNED`).

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
    return Expr(terms)  # interned, so that equality is mostly identity


def _atom(op: Literal["floordiv", "min"], *args: Dim) -> Dim:
    text = f"{op}({', '.join(map(str, args))})"
    if op == "floordiv" and isinstance(args[1], int):
        offset = args[1] - 1
        if terms_of(args[0])[-1] == ((), offset):
            text = f"ceildiv({args[0] - offset}, {args[1]})"
    return _expr((((Atom(op, args, text),), 1),))


def _build(terms: Mapping[Monomial, int]) -> Dim:
    kept = {
        monomial: coefficient for monomial, coefficient in terms.items() if coefficient
    }
    if kept.keys() <= {()}:
        return kept.get((), 0)
    return _expr(tuple(sorted(kept.items(), key=lambda term: monomial_order(term[0]))))


@_cached
def _add(a: Dim, b: Dim) -> Dim:
    total = dict(terms_of(a))
    for monomial, coefficient in terms_of(b):
        total[monomial] = total.get(monomial, 0) + coefficient
    return _build(total)


@_cached
def _mul(a: Dim, b: Dim) -> Dim:
    left, right = terms_of(a), terms_of(b)
    if len(left) * len(right) > _MAX_PRODUCT:
        raise ValueError("size expression is too large: the product has too many terms")
    total: dict[Monomial, int] = {}
    for monomial, coefficient in left:
        for other, by in right:
            merged = multiply_monomials(monomial, other)
            total[merged] = total.get(merged, 0) + coefficient * by
    if any(coefficient.bit_length() > _MAX_BITS for coefficient in total.values()):
        raise ValueError(
            f"size expression is too large: a number of over {_MAX_BITS} bits"
        )
    return _build(total)


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
    (lead, lead_factor), *tail = terms_of(b)
    work = dict(terms_of(a))
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    while work:
        monomial = min(work, key=monomial_order) if tail else next(iter(work))
        coefficient = work.pop(monomial)
        cofactor = divide_monomials(monomial, lead)
        if cofactor is None:
            remainder[monomial] = coefficient
            continue
        quotient[cofactor], remainder[monomial] = by, _ = divmod(
            coefficient, lead_factor
        )
        for other, other_factor in tail:
            lower = multiply_monomials(cofactor, other)
            work[lower] = work.get(lower, 0) - by * other_factor
    return _build(quotient), _build(remainder)


@_cached
def _floordiv(a: Dim, b: Dim) -> Dim:
    if terms_of(b)[0][1] < 0:
        return _floordiv(-a, -b)
    common = _common_factor(a, b)
    if common != 1:
        return floordiv(divide(a, common)[0], divide(b, common)[0])
    quotient, rest = divide(a, b)
    if isinstance(b, int):
        return quotient + (_fraction(rest, b) if isinstance(rest, Expr) else 0)
    return quotient + _symbolic_fraction(rest, b)


def _common_factor(a: Dim, b: Dim) -> Dim:
    """The common factor of ``a // b``; the constant of ``a`` may be rounded if ``b > 0``."""
    rounded = (
        terms_of(a)[:-1] if not terms_of(a)[-1][0] and _is_positive(b) else terms_of(a)
    )
    common = math.gcd(*(coefficient for _, coefficient in (*rounded, *terms_of(b))))
    shared = Counter(terms_of(b)[0][0])
    for monomial, _ in (*terms_of(a), *terms_of(b)):
        shared &= Counter(monomial)
    return _build({tuple(sorted(shared.elements(), key=atom_order)): common})


def _is_positive(divisor: Dim) -> bool:
    return is_known_le(0, divisor)  # and not 0, being a divisor


def _fraction(a: Expr, k: int) -> Dim:
    """``a // k`` for coefficients between 0 and ``k``, in lowest terms."""
    merged = _unnested(a, k)
    if merged is None:
        merged = _within_one_step(a, k)
    if merged is not None:
        return merged
    # floor(a / k) = -floor((k - 1 - a) / k): take the one with smaller coefficients.
    quotient, mirrored = divide(k - 1 - a, k)
    if coefficients(mirrored) < coefficients(a):
        return -(quotient + _atom("floordiv", mirrored, k))
    return _atom("floordiv", a, k)


def _within_one_step(a: Expr, k: int) -> Dim | None:
    """``a // k`` if bounds determine it, possibly after removing multiples of ``k``.

    A remainder is a difference, ``mod(n, 2) = n - 2 * floordiv(n, 2)``, so these are
    the terms with a call or those without: one of the two has become negative.
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


def _unnested(a: Expr, k: int) -> Dim | None:
    """``(x // y + z) // k`` is ``(x + y * z) // (y * k)``; so with ``-(x // y)``."""
    for monomial, coefficient in a.terms:
        if len(monomial) != 1 or monomial[0].op != "floordiv":
            continue
        x, y = monomial[0].args
        if not isinstance(y, int) or coefficient not in (1, k - 1):
            continue
        inner = _build({monomial: 1})
        rest = y * (a - coefficient * inner)
        if coefficient == 1:
            return floordiv(x + rest, y * k)
        return inner + floordiv(y - 1 - x + rest, y * k)
    return None


def _symbolic_fraction(a: Dim, b: Expr) -> Dim:
    """``a // b`` in lowest terms, without multiples of ``b`` in ``a``."""
    if a == 0:
        return 0
    if not _is_positive(b):
        return _atom("floordiv", a, b)
    if is_known_le(0, a) and is_known_le(a + 1, b):
        return 0
    if is_known_le(a, -1) and (is_known_le(-1, a) or is_known_le(0, a + b)):
        return -1
    if terms_of(a)[0][1] < 0:
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
    shift = _build(
        extreme_coefficients(dims, min)
    )  # leaves no term in all arguments, and no negative ones
    rest = [dim - shift for dim in dims]
    common = (
        math.gcd(*(coefficient for dim in rest for _, coefficient in terms_of(dim)))
        or 1
    )
    if shift != 0 or common != 1:
        return shift + common * _minimum(tuple(divide(dim, common)[0] for dim in rest))
    args = _least(dims)
    if len(args) == 1:
        return args[0]
    flat = tuple(case for arg in args for case in _flattened(arg))
    return _atom("min", *flat) if flat == dims else _minimum(flat)


def _least(dims: Sequence[Dim]) -> list[Dim]:
    """The non-redundant arguments of a minimum, symbols before constants."""
    if len(dims) > _MAX_MIN_ARGS:
        raise ValueError(
            f"size expression is too large: over {_MAX_MIN_ARGS} arguments"
        )
    kept: list[Dim] = []
    for dim in sorted(set(dims), key=argument_order):
        if not any(is_known_le(other, dim) for other in kept):
            kept = [other for other in kept if not is_known_le(dim, other)] + [dim]
    return kept


def _flattened(dim: Dim) -> list[Dim]:
    """``min(a, b) + c`` as two arguments, ``a + c`` and ``b + c``, of a minimum."""
    found = [
        (m[0], by)
        for m, by in terms_of(dim)
        if len(m) == 1 and m[0].op == "min" and by > 0
    ]
    if len(found) != 1:
        return [dim]
    ((atom, coefficient),) = found
    rest = dim - _build({(atom,): coefficient})
    return [rest + coefficient * arg for arg in atom.args]
