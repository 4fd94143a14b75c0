"""Operations on symbolic sizes: parse, evaluate, substitute, compare, solve."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from relax_mlir.symbolic import bounds, dims
from relax_mlir.symbolic.dims import Dim, Expr
from relax_mlir.symbolic.monomials import Atom

# Limits against denial of service and stack overflow by text from model files.
_MAX_CHARACTERS = 10_000
_MAX_DIGITS = 20  # of a number
_MAX_NESTING = 50  # parentheses
_MAX_EXPONENT = 64
_MAX_BITS = 4096  # of a computed constant

_NAME = re.compile(r"[A-Za-z_]")
_NUMBER = re.compile(r"[0-9]")
_TOKEN = re.compile(r"[0-9]+|[A-Za-z_][A-Za-z0-9_.]*|//|\S")
_LEVELS: Sequence[Mapping[str, Callable[[Dim, Dim], Dim]]] = (
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "//": dims.floordiv, "%": dims.mod},
)
_FUNCTIONS: Mapping[
    str, tuple[Callable[..., Dim], int | None]
] = {  # with the number of arguments
    "floordiv": (dims.floordiv, 2),
    "ceildiv": (dims.ceildiv, 2),
    "mod": (dims.mod, 2),
    "min": (dims.minimum, None),
    "max": (dims.maximum, None),
}


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> Dim:
    """Parses a size, such as ``2*n + 1`` or ``ceildiv(n, 2)``.

    Operators are ``+ - * // %`` and ``^`` with a number as exponent; functions are
    ``floordiv ceildiv mod min max``. ``parse(str(dim)) == dim`` for every size.

    Raises:
        ValueError: a syntax error, with its position, counted from 0.
    """
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(
            f"size is too long: expected up to {_MAX_CHARACTERS} characters"
        )
    return _Parser(text).whole()


def dims_from_text(texts: Iterable[str]) -> tuple[Dim, ...]:
    """Parses the strings of a ``#relax.shape`` attribute.

    Raises:
        ValueError: a string is not a size, or it is a negative constant.
    """
    shape = tuple(map(parse, texts))
    for dim in shape:
        if isinstance(dim, int) and dim < 0:
            raise ValueError(f"size is negative: expected 0 or more, got {dim}")
    return shape


def dims_to_text(shape: Iterable[Dim]) -> tuple[str, ...]:
    """The canonical strings of a shape, as in a ``#relax.shape`` attribute."""
    return tuple(map(str, shape))


class _Parser:
    """A recursive descent parser of sizes."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = [(token.group(), token.start()) for token in _TOKEN.finditer(text)]
        self.tokens = [*found, ("", len(text))]
        self.index = 0
        self.nesting = 0

    @property
    def token(self) -> str:
        return self.tokens[self.index][0]

    def accept(self, token: str) -> bool:
        found = self.token == token
        self.index += found
        return found

    def error(self, problem: str, index: int) -> ValueError:
        return ValueError(
            f"cannot read size `{self.text}` at {self.tokens[index][1]}: {problem}"
        )

    def expected(self, what: str) -> ValueError:
        got = f"`{self.token}`" if self.token else "the end"
        return self.error(f"expected {what}, got {got}", self.index)

    def apply(self, at: int, function: Callable[..., Dim], *args: Dim) -> Dim:
        try:
            result = function(*args)
        except ValueError as error:
            raise self.error(str(error), at) from error
        if isinstance(result, int) and result.bit_length() > _MAX_BITS:
            raise self.error("the number is too large", at)
        return result

    def whole(self) -> Dim:
        dim = self.binary(0)
        if self.token:
            raise self.expected("an operator")
        return dim

    def binary(self, level: int) -> Dim:
        if level == len(_LEVELS):
            return self.factor()
        total = self.binary(level + 1)
        while function := _LEVELS[level].get(self.token):
            at = self.index
            self.index += 1
            total = self.apply(at, function, total, self.binary(level + 1))
        return total

    def factor(self) -> Dim:
        sign = 1
        while self.accept("-"):
            sign = -sign
        dim = self.operand()
        if self.accept("^"):
            at, exponent = self.index, self.number("an exponent", _MAX_EXPONENT)
            dim = self.apply(at, _power, dim, exponent)
        return sign * dim

    def operand(self) -> Dim:
        token, at = self.token, self.index
        if _NUMBER.match(token):
            return self.number("a number", 10**_MAX_DIGITS)
        if token == "(":
            (dim,) = self.arguments(1)
            return dim
        if not _NAME.match(token):
            raise self.expected("a size")
        self.index += 1
        if self.token != "(":
            return dims.symbol(token)
        if token not in _FUNCTIONS:
            raise self.error(
                f"expected one of {', '.join(_FUNCTIONS)}, got `{token}`", at
            )
        function, count = _FUNCTIONS[token]
        return self.apply(at, function, *self.arguments(count))

    def arguments(self, count: int | None) -> list[Dim]:
        """One or more sizes in parentheses; exactly ``count`` unless None."""
        at = self.index
        self.index += 1
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise self.error(f"over {_MAX_NESTING} parentheses are open", at)
        found = [self.binary(0)]
        while self.accept(","):
            found.append(self.binary(0))
        if not self.accept(")"):
            raise self.expected("`)`")
        self.nesting -= 1
        if count is not None and len(found) != count:
            raise self.error(f"expected {count} arguments, got {len(found)}", at)
        return found

    def number(self, what: str, limit: int) -> int:
        token = self.token
        if not _NUMBER.match(token) or len(token) > _MAX_DIGITS or int(token) > limit:
            raise self.expected(f"{what} up to {limit}")
        self.index += 1
        return int(token)


def _power(base: Dim, exponent: int) -> Dim:
    result: Dim = 1
    for _ in range(exponent):
        result = result * base
    return result


def symbols_of(dim: Dim) -> tuple[str, ...]:
    """The names of the symbols in ``dim``, sorted."""
    return () if isinstance(dim, int) else _symbols_of(dim)


@lru_cache(maxsize=1 << 14)
def _symbols_of(dim: Expr) -> tuple[str, ...]:
    names: set[str] = set()
    for monomial, _ in dim.terms:
        for atom in monomial:
            names.update((atom.text,) if atom.op == "symbol" else ())
            names.update(name for arg in atom.args for name in symbols_of(arg))
    return tuple(sorted(names))


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The value of ``dim`` for given values of its symbols.

    Raises:
        ValueError: a symbol has no value, or a divisor is 0.
    """
    result = substitute(dim, values)
    if isinstance(result, Expr):
        missing = ", ".join(f"`{name}`" for name in symbols_of(result))
        raise ValueError(f"cannot evaluate `{dim}`: no value for {missing}")
    return result


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Substitutes sizes for symbols in ``dim``, simultaneously; other symbols stay.

    Raises:
        ValueError: a divisor becomes 0.
    """
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom in monomial:
            term = term * _substituted(atom, values)
        total = total + term
    return total


def _substituted(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if atom.op == "symbol":
        value = values.get(atom.text)
        return dims.symbol(atom.text) if value is None else value
    args = [substitute(arg, values) for arg in atom.args]
    return dims.floordiv(*args) if atom.op == "floordiv" else dims.minimum(*args)


def largest_number(dim: Dim) -> int:
    """The largest absolute value of the numbers in ``dim``."""
    return abs(dim) if isinstance(dim, int) else _largest_number(dim)


@lru_cache(maxsize=1 << 14)
def _largest_number(dim: Expr) -> int:
    args = (arg for monomial, _ in dim.terms for atom in monomial for arg in atom.args)
    coefficients = (abs(coefficient) for _, coefficient in dim.terms)
    return max((*coefficients, *map(largest_number, args)))


def is_known_equal(a: Dim, b: Dim) -> bool:
    """Whether ``a == b`` is proved for all symbol values; False means unknown."""
    return a == b or bounds.bounds(a - b) == (0, 0)


def is_known_unequal(a: Dim, b: Dim) -> bool:
    """Whether ``a != b`` is proved for all symbol values; False means unknown."""
    difference = a - b
    if isinstance(difference, int):
        return difference != 0
    low, high = bounds.bounds(difference)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return True
    coefficients = [
        coefficient for monomial, coefficient in difference.terms if monomial
    ]
    constant = sum(
        coefficient for monomial, coefficient in difference.terms if not monomial
    )
    return constant % math.gcd(*coefficients) != 0


def bind(pattern: Dim, value: Dim, known: Mapping[str, Dim]) -> dict[str, Dim] | None:
    """Solves ``pattern == value`` for the one symbol that is not in ``known``.

    ``bind(2*n + 1, 9, {})`` is ``{"n": 4}``. The symbols in ``value`` and in the values
    of ``known`` may belong to another scope and are never solved for.

    Returns:
        ``known`` with the symbol's value; None if no size solves it: ``bind(2*n, 9, {})``,
        or ``pattern`` has only known symbols and is not known to equal ``value``.

    Raises:
        ValueError: several symbols are unknown, or ``pattern`` is not linear in the one.
    """
    unknown = [name for name in symbols_of(pattern) if name not in known]
    if not unknown:
        fits = is_known_equal(substitute(pattern, known), value)
        return dict(known) if fits else None
    if len(unknown) > 1:
        names = ", ".join(f"`{name}`" for name in unknown)
        raise ValueError(
            f"cannot solve `{pattern}` = `{value}`: expected one unknown, got {names}"
        )
    coefficient, offset = _linear(pattern, unknown[0], known)
    if coefficient == 0:
        raise ValueError(f"cannot solve `{pattern}` = `{value}` for `{unknown[0]}`")
    quotient, rest = dims.divide(value - offset, coefficient)
    if rest != 0 or bounds.is_known_le(quotient, -1):
        return None
    return {**known, unknown[0]: quotient}


def _linear(pattern: Dim, name: str, known: Mapping[str, Dim]) -> tuple[Dim, Dim]:
    """``coefficient`` and ``offset`` of ``pattern = coefficient * name + offset``."""
    quotient, offset = dims.divide(pattern, dims.symbol(name))
    if name in symbols_of(quotient) or name in symbols_of(offset):
        raise ValueError(f"cannot solve `{pattern}` for `{name}`: it is not linear")
    return substitute(quotient, known), substitute(offset, known)


def bind_shape(
    pattern: Sequence[Dim], shape: Sequence[Dim], known: Mapping[str, Dim] | None = None
) -> dict[str, Dim]:
    """Solves ``pattern == shape`` for the symbols of ``pattern``.

    Sizes with several unknowns, or nonlinear in the unknown, are solved after other sizes
    have determined these.

    Returns:
        ``known`` with the values of the symbols.

    Raises:
        ValueError: the shapes differ, or a symbol is not determined.
    """
    if len(pattern) != len(shape):
        raise ValueError(f"ranks differ: expected {len(pattern)}, got {len(shape)}")
    found = dict(known or {})
    waiting: Sequence[int] = range(len(pattern))
    while waiting:
        unsolved: dict[int, ValueError] = {}
        for axis in waiting:
            want, got = pattern[axis], shape[axis]
            try:
                solved = bind(want, got, found)
            except ValueError as error:
                unsolved[axis] = error
                continue
            if solved is None:
                raise ValueError(
                    f"dimension {axis} does not fit: expected `{want}`, got `{got}`"
                )
            found = solved
        if len(unsolved) == len(waiting):
            raise next(iter(unsolved.values()))
        waiting = list(unsolved)
    return found
