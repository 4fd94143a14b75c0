"""Gelu written out as sums and products, of graphs and of vectors alike."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

__all__ = ["EXACT", "Gelu", "Notation", "find_gelu"]

# Powers of some values -> the coefficient of their product.
_Polynomial = Mapping[tuple[int, ...], float]

EXACT = 2.0**-22  # tolerance of coefficients, whose constants models hold in f32
_STEPS = 4  # from the error function to the product that is gelu
_DEPTH = 8  # of an expression that is read as a polynomial
_SLOPE = math.sqrt(2 / math.pi)
_ERF: _Polynomial = {(1,): math.sqrt(0.5)}
_TANH: _Polynomial = {(1,): _SLOPE, (3,): 0.044715 * _SLOPE}
# x/2 + x/2 * f, as a polynomial in x and f.
_HALVES: _Polynomial = {(1, 0): 0.5, (1, 1): 0.5}


@dataclass(frozen=True)
class Notation:
    """How operations of one level say arithmetic.

    Attributes:
        number: The number that every element of a value is, or None.
        add, multiply, divide, power: Names of operations.
        tolerance: Of the function's coefficients, which constants of few bits miss.
    """

    number: Callable[[ir.Value], float | None]
    add: str
    multiply: str
    divide: str
    power: str
    tolerance: float = EXACT


@dataclass(frozen=True)
class Gelu:
    """An expression that is gelu.

    Attributes:
        last: The operation whose result it is.
        x: What it is a function of.
        is_tanh: Whether it is the form with the hyperbolic tangent.
    """

    last: ir.OpView
    x: ir.Value
    is_tanh: bool


def find_gelu(op: ir.OpView, is_tanh: bool, notation: Notation) -> Gelu | None:
    """The gelu that an error function or hyperbolic tangent is part of.

    x/2 * (1 + erf(x / sqrt 2)), x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3))): sums
    and products may stand in any order, if nothing else reads what is in between.

    Source: ONNX Gelu-20.
    """
    inside = _TANH if is_tanh else _ERF
    path = list(_followers(op, notation))
    for x in _factors(path, notation):
        given = _read(op.operands[0], (x,), notation)
        if not _is_close(given, inside, notation.tolerance):
            continue
        for last in path:
            read = _read(last.results[0], (x, op.results[0]), notation)
            if _is_close(read, _HALVES, EXACT) and last.results[0].type == x.type:
                return Gelu(last, x, is_tanh)
    return None


def _followers(op: ir.OpView, notation: Notation) -> Iterator[ir.OpView]:
    """The sums, products and quotients that a result goes through, and nothing else."""
    names = (notation.add, notation.multiply, notation.divide)
    for _ in range(_STEPS):
        users = [use.owner for use in op.results[0].uses]
        if len(users) != 1 or users[0].operation.name not in names:
            return
        op = users[0]
        yield op


def _factors(path: Sequence[ir.OpView], notation: Notation) -> Iterator[ir.Value]:
    """What is multiplied on the way, alone or in a product or quotient with a number."""
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


def _read(
    value: ir.Value,
    variables: Sequence[ir.Value],
    notation: Notation,
    depth: int = _DEPTH,
) -> _Polynomial | None:
    """An expression as a polynomial in some values; None if it is none."""
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
    lhs = _read(owner.operands[0], variables, notation, depth - 1)
    rhs = _read(owner.operands[1], variables, notation, depth - 1)
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
    """Squares and cubes."""
    times = _constant(exponent)
    if times not in (2.0, 3.0):
        return None
    square = _product(base, base)
    return square if times == 2.0 else _product(square, base)


def _constant(polynomial: _Polynomial) -> float | None:
    """The value of a polynomial without variables."""
    ((powers, factor), *others) = polynomial.items()
    return None if others or any(powers) else factor
