"""Pattern matching of GELU written as arithmetic, on graphs and on vector code."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

__all__ = ["COEFFICIENT_TOLERANCE", "ArithmeticNames", "GeluMatch", "find_gelu"]

# Exponents of the variables -> coefficient of the monomial.
_Polynomial = Mapping[tuple[int, ...], float]

COEFFICIENT_TOLERANCE = (
    2.0**-22
)  # relative tolerance of coefficients that models store in f32
_STEPS = 4  # users from erf or tanh to the root of the pattern
_DEPTH = 8  # maximum depth of an expression parsed as a polynomial
_SLOPE = math.sqrt(2 / math.pi)
_ERF: _Polynomial = {(1,): math.sqrt(0.5)}
_TANH: _Polynomial = {(1,): _SLOPE, (3,): 0.044715 * _SLOPE}
# x/2 + x/2 * f, as a polynomial in x and f.
_HALVES: _Polynomial = {(1, 0): 0.5, (1, 1): 0.5}


@dataclass(frozen=True)
class ArithmeticNames:
    """The names of arithmetic operations at one IR level.

    Attributes:
        number: The value of a splat constant, or None.
        add, multiply, divide, power: Names of operations.
        tolerance: Relative, of the coefficients inside erf or tanh.
    """

    number: Callable[[ir.Value], float | None]
    add: str
    multiply: str
    divide: str
    power: str
    tolerance: float = COEFFICIENT_TOLERANCE


@dataclass(frozen=True)
class GeluMatch:
    """A match of the GELU pattern.

    Attributes:
        last: The root operation.
        x: The argument.
        is_tanh: Whether it is the tanh approximation.
    """

    last: ir.OpView
    x: ir.Value
    is_tanh: bool


def find_gelu(
    op: ir.OpView, is_tanh: bool, notation: ArithmeticNames
) -> GeluMatch | None:
    """Matches the GELU around an erf or tanh operation.

    x/2 * (1 + erf(x / sqrt 2)), x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3))): additions
    and multiplications in any order, if intermediate values have no other users.

    Source: ONNX Gelu-20.
    """
    inside = _TANH if is_tanh else _ERF
    path = list(_followers(op, notation))
    for x in _factors(path, notation):
        given = _as_polynomial(op.operands[0], (x,), notation)
        if not _is_close(given, inside, notation.tolerance):
            continue
        for last in path:
            read = _as_polynomial(last.results[0], (x, op.results[0]), notation)
            if (
                _is_close(read, _HALVES, COEFFICIENT_TOLERANCE)
                and last.results[0].type == x.type
            ):
                return GeluMatch(last, x, is_tanh)
    return None


def _followers(op: ir.OpView, notation: ArithmeticNames) -> Iterator[ir.OpView]:
    """The chain of single users of a result that add, multiply or divide."""
    names = (notation.add, notation.multiply, notation.divide)
    for _ in range(_STEPS):
        users = [use.owner for use in op.results[0].uses]
        if len(users) != 1 or users[0].operation.name not in names:
            return
        op = users[0]
        yield op


def _factors(
    path: Sequence[ir.OpView], notation: ArithmeticNames
) -> Iterator[ir.Value]:
    """The candidates for x: operands on the chain, and of their products and quotients."""
    for op in path:
        for operand in op.operands:
            yield operand
            owner = operand.owner
            if isinstance(owner, ir.Block):
                continue
            if owner.name in (notation.multiply, notation.divide):
                yield from owner.operands


def _is_close(
    actual: _Polynomial | None, expected: _Polynomial, tolerance: float
) -> bool:
    if actual is None or actual.keys() != expected.keys():
        return False
    return all(
        math.isclose(actual[powers], expected[powers], rel_tol=tolerance)
        for powers in expected
    )


def _as_polynomial(
    value: ir.Value,
    variables: Sequence[ir.Value],
    notation: ArithmeticNames,
    depth: int = _DEPTH,
) -> _Polynomial | None:
    """An expression as a polynomial in ``variables``; None if it is not one."""
    if value in variables:
        return {tuple(int(value == v) for v in variables): 1.0}
    number = notation.number(value)
    if number is not None:
        return {(0,) * len(variables): number}
    owner = value.owner
    if isinstance(owner, ir.Block) or depth == 0 or len(owner.operands) != 2:
        return None
    combine = {
        notation.add: _sum,
        notation.multiply: _product,
        notation.divide: _quotient,
        notation.power: _power,
    }.get(owner.name)
    if combine is None:
        return None
    lhs = _as_polynomial(owner.operands[0], variables, notation, depth - 1)
    rhs = _as_polynomial(owner.operands[1], variables, notation, depth - 1)
    return None if lhs is None or rhs is None else combine(lhs, rhs)


def _sum(lhs: _Polynomial, rhs: _Polynomial) -> _Polynomial:
    powers = dict.fromkeys((*lhs, *rhs))
    return {p: lhs.get(p, 0.0) + rhs.get(p, 0.0) for p in powers}


def _product(lhs: _Polynomial, rhs: _Polynomial) -> _Polynomial:
    result: dict[tuple[int, ...], float] = {}
    for p, a in lhs.items():
        for q, b in rhs.items():
            powers = tuple(i + j for i, j in zip(p, q, strict=True))
            result[powers] = result.get(powers, 0.0) + a * b
    return result


def _quotient(lhs: _Polynomial, rhs: _Polynomial) -> _Polynomial | None:
    divisor = _constant(rhs)
    if not divisor:
        return None
    return {powers: factor / divisor for powers, factor in lhs.items()}


def _power(base: _Polynomial, exponent: _Polynomial) -> _Polynomial | None:
    """The square or cube of a polynomial; None for other exponents."""
    times = _constant(exponent)
    if times not in (2.0, 3.0):
        return None
    square = _product(base, base)
    return square if times == 2.0 else _product(square, base)


def _constant(polynomial: _Polynomial) -> float | None:
    """The value of a constant polynomial, or None."""
    ((powers, factor), *others) = polynomial.items()
    return None if others or any(powers) else factor
