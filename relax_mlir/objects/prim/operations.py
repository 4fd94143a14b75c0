"""Binary scalar operations and their constant folding."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from relax_mlir.errors import DivisionError
from relax_mlir.objects.prim.constants import FloatImm, IntImm
from relax_mlir.objects.prim.conversion import const, matched
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.lanes import element_type, with_lanes
from relax_mlir.objects.prim.traversal import structurally_equal

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryExpr",
    "Div",
    "FloorDiv",
    "FloorMod",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Sub",
    "binary",
    "fold_exactly",
    "rounded",
]


class BinaryExpr(PrimExpr):
    """A binary operation on operands of one type; the constructor does not fold."""

    __slots__ = ("a", "b")
    fields = ("a", "b")
    symbol: ClassVar[str] = ""
    precedence: ClassVar[int] = 0
    fold: ClassVar[Callable[[Any, Any], Any]]
    is_comparison: ClassVar[bool] = False

    def __init__(self, a: Any, b: Any, span: object = None) -> None:
        if not self.symbol and type(self) is BinaryExpr:
            raise TypeError("BinaryExpr: expected an operation, such as `tir.Add`")
        self.a, self.b = matched(a, b)
        truth = with_lanes("bool", self.a.dtype)
        self.dtype = truth if self.is_comparison else self.a.dtype

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return fold_exactly(type(self), *children)


class Add(BinaryExpr):
    """a + b."""

    __slots__ = ()
    symbol, precedence, fold = "+", 9, staticmethod(operator.add)


class Sub(BinaryExpr):
    """a - b."""

    __slots__ = ()
    symbol, precedence, fold = "-", 9, staticmethod(operator.sub)


class Mul(BinaryExpr):
    """a * b."""

    __slots__ = ()
    symbol, precedence, fold = "*", 10, staticmethod(operator.mul)


class Div(BinaryExpr):
    """a / b; truncates for integers."""

    __slots__ = ()
    symbol, precedence = "/", 10

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return a / b


class Mod(BinaryExpr):
    """The remainder with the sign of a, as in C."""

    __slots__ = ()

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        is_float = isinstance(a, float) or isinstance(b, float)
        if is_float and math.isinf(a):
            return math.nan  # as C's `fmod`; Python's raises
        return math.fmod(a, b) if is_float else a - b * Div.fold(a, b)


class FloorDiv(BinaryExpr):
    """a // b, rounded down."""

    __slots__ = ()
    symbol, precedence, fold = "//", 10, staticmethod(operator.floordiv)


class FloorMod(BinaryExpr):
    """a % b with the sign of b."""

    __slots__ = ()
    symbol, precedence, fold = "%", 10, staticmethod(operator.mod)


class Min(BinaryExpr):
    """The smaller of two values; NaN if either is NaN."""

    __slots__ = ()

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return _nan(a, b) or min(a, b, key=_with_sign)


class Max(BinaryExpr):
    """The larger of two values; NaN if either is NaN."""

    __slots__ = ()

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return _nan(a, b) or max(a, b, key=_with_sign)


def _with_sign(number: Any) -> tuple[Any, bool]:
    """Sort key that orders -0.0 before 0.0."""
    return number, isinstance(number, int) or math.copysign(1, number) > 0


def _nan(*numbers: Any) -> float | None:
    """NaN if an argument is NaN, else None."""
    return math.nan if any(n != n for n in numbers) else None


class Comparison(BinaryExpr):
    """Base class of the comparisons."""

    __slots__ = ()
    is_comparison = True
    precedence = 4


class EQ(Comparison):
    """a == b; its Python truth value is structural equality of the operands."""

    __slots__ = ()
    symbol, fold = "==", staticmethod(operator.eq)

    def __bool__(self) -> bool:
        return structurally_equal(self.a, self.b)


class NE(Comparison):
    """a != b; its Python truth value is structural inequality of the operands."""

    __slots__ = ()
    symbol, fold = "!=", staticmethod(operator.ne)

    def __bool__(self) -> bool:
        return not structurally_equal(self.a, self.b)


class LT(Comparison):
    """a < b."""

    __slots__ = ()
    symbol, fold = "<", staticmethod(operator.lt)


class LE(Comparison):
    """a <= b."""

    __slots__ = ()
    symbol, fold = "<=", staticmethod(operator.le)


class GT(Comparison):
    """a > b."""

    __slots__ = ()
    symbol, fold = ">", staticmethod(operator.gt)


class GE(Comparison):
    """a >= b."""

    __slots__ = ()
    symbol, fold = ">=", staticmethod(operator.ge)


class And(BinaryExpr):
    """Conjunction; b is not evaluated if a is false."""

    __slots__ = ()
    symbol, precedence, is_comparison = "and", 2, True

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return bool(a) and bool(b)


class Or(BinaryExpr):
    """Disjunction; b is not evaluated if a is true."""

    __slots__ = ()
    symbol, precedence, is_comparison = "or", 1, True

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return bool(a) or bool(b)


def binary(kind: type[BinaryExpr], a: Any, b: Any) -> PrimExpr:
    """``kind`` of two expressions, with TVM's folding."""
    try:
        a, b = matched(a, b)
    except TypeError:
        return NotImplemented
    folded = _folded(kind, a, b)
    return kind(a, b) if folded is None else folded


def fold_exactly(kind: type[BinaryExpr], a: Any, b: Any) -> PrimExpr:
    """``kind`` of two expressions, with value-preserving constant folding.

    Float operations fold only if both operands are constants: TVM folds ``x * 0`` to 0,
    which is wrong for NaN, and ``x + 0`` to x, which is wrong for -0.

    Raises:
        DivisionError: an integer division by zero.
    """
    a, b = matched(a, b)
    is_float = element_type(a.dtype).startswith(("float", "bfloat"))
    if is_float and not kind.is_comparison and not _folds_exactly(kind, a, b):
        return kind(a, b)
    return binary(kind, a, b)


def _folds_exactly(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> bool:
    """Whether Python's result on two floats equals the compiled program's."""
    if not isinstance(a, FloatImm) or not isinstance(b, FloatImm):
        return False
    if kind in (Min, Max):
        return True
    is_arithmetic = kind in (Add, Sub, Mul) or (kind is Div and b.value != 0)
    return is_arithmetic and a.dtype in ("float16", "float32", "float64")


def _folded(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    numbers = (IntImm, FloatImm)
    if isinstance(a, numbers) and isinstance(b, numbers):
        divides = kind in (Div, Mod, FloorDiv, FloorMod)
        if divides and b.value == 0:
            raise DivisionError(f"division by zero: {a} {kind.symbol} {b}")
        value = kind.fold(a.value, b.value)
        if kind.is_comparison:
            return const(value, "bool")
        return const(rounded(value, a.dtype), a.dtype)
    return _fold_identity(kind, a, b)


def rounded(value: Any, dtype: str) -> Any:
    """A number rounded (floats) or wrapped (integers) to a type."""
    if dtype in ("float16", "float32"):
        with np.errstate(over="ignore"):
            return float(np.dtype(dtype).type(value))
    if not dtype.startswith(("int", "uint", "bool")):
        return value
    bits = 1 if dtype == "bool" else int(dtype.lstrip("uint"))
    value = int(value) % (1 << bits)
    is_negative = dtype.startswith("int") and value >= 1 << (bits - 1)
    return value - (1 << bits) if is_negative else value


def _fold_identity(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Folding by identity and absorbing elements: ``x + 0``, ``x * 1``, ``x * 0``, ..."""
    left = a.value if isinstance(a, (IntImm, FloatImm)) else None
    right = b.value if isinstance(b, (IntImm, FloatImm)) else None
    if kind is Add and right == 0:
        return a
    if kind is Add and left == 0:
        return b
    if kind is Sub and right == 0:
        return a
    if kind in (Mul, Div) and right == 1:
        return a
    if kind is FloorDiv and right == 1 and a.is_integer:
        return a
    if kind is Mul and left == 1:
        return b
    if kind is Mul and 0 in (left, right):
        return const(0, a.dtype)
    if kind in (FloorMod, Mod) and right == 1 and a.is_integer:
        return const(0, a.dtype)
    if kind in (FloorDiv, FloorMod) and left == 0:
        return a
    return _fold_logical(kind, a, b)


def _fold_logical(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    for one, other in ((a, b), (b, a)):
        if kind in (And, Or) and isinstance(one, IntImm):
            keeps = bool(one.value) == (kind is And)
            return other if keeps else one
    return None
