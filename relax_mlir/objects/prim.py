"""Scalar expressions: what sizes, indices and the elements of tensors are written in.

A :class:`PrimExpr` is a term: it stands nowhere yet. It becomes a symbolic size of a
type, or arithmetic in a tensor program, when something that holds it is written.
Names, arithmetic and folding follow TVM's ``tir`` (0.14 to 0.27).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

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
    "Call",
    "Cast",
    "CommReducer",
    "Div",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "IterVar",
    "Let",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimExpr",
    "Range",
    "Reduce",
    "Select",
    "SizeVar",
    "StringImm",
    "Sub",
    "Var",
    "binary",
    "cast",
    "const",
    "convert",
    "matched",
    "post_order",
    "structurally_equal",
    "substitute",
]


class PrimExpr:
    """A scalar: a variable, a number, or an operation on scalars.

    Attributes:
        dtype: ``int32``, ``int64``, ``float32``, ``bool``, ...
    """

    __slots__ = ("dtype",)
    fields: ClassVar[tuple[str, ...]] = ()  # those that are expressions, in order
    __array_ufunc__ = None  # numpy must not swallow us element by element

    dtype: str

    def children(self) -> tuple[PrimExpr, ...]:
        """The expressions that this one is made of."""
        return tuple(getattr(self, name) for name in self.fields)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        """The same operation on other operands."""
        return self

    def key(self) -> tuple[object, ...]:
        """What beside its class and its children makes it what it is."""
        return (self.dtype,)

    def same_as(self, other: object) -> bool:
        """Whether it is the same term, or an equal number."""
        return isinstance(other, PrimExpr) and structurally_equal(self, other)

    def astype(self, dtype: str, span: object = None) -> PrimExpr:
        """The value in another type."""
        return cast(dtype, self)

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer of any width, sign included."""
        return self.dtype.startswith(("int", "uint"))

    def __add__(self, other: Any) -> PrimExpr:  # Any: numbers of every kind
        return binary(Add, self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return binary(Add, other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return binary(Sub, self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return binary(Sub, other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return binary(Mul, self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return binary(Mul, other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return _true_divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return _true_divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return binary(FloorDiv, self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return binary(FloorDiv, other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return binary(FloorMod, self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return binary(FloorMod, other, self)

    def __neg__(self) -> PrimExpr:
        return binary(Mul, self, const(-1, self.dtype))

    def __and__(self, other: Any) -> PrimExpr:
        return _bitwise("bitwise_and", And, self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return _bitwise("bitwise_and", And, other, self)

    def __or__(self, other: Any) -> PrimExpr:
        return _bitwise("bitwise_or", Or, self, other)

    def __ror__(self, other: Any) -> PrimExpr:
        return _bitwise("bitwise_or", Or, other, self)

    def __xor__(self, other: Any) -> PrimExpr:
        return _bitwise("bitwise_xor", None, self, other)

    def __rxor__(self, other: Any) -> PrimExpr:
        return _bitwise("bitwise_xor", None, other, self)

    def __lshift__(self, other: Any) -> PrimExpr:
        return _bitwise("shift_left", None, self, other)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return _bitwise("shift_left", None, other, self)

    def __rshift__(self, other: Any) -> PrimExpr:
        return _bitwise("shift_right", None, self, other)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return _bitwise("shift_right", None, other, self)

    def __invert__(self) -> PrimExpr:
        if self.dtype == "bool":
            return Not(self)
        return Call(self.dtype, "bitwise_not", [self])

    def __lt__(self, other: Any) -> PrimExpr:
        return binary(LT, self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return binary(LE, self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return binary(GT, self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return binary(GE, self, other)

    def __eq__(self, other: object) -> Any:  # Any: a term, which is true where it must
        if not isinstance(other, (PrimExpr, *_NUMBERS)):
            return False
        return binary(EQ, self, other)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, (PrimExpr, *_NUMBERS)):
            return True
        return binary(NE, self, other)

    def equal(self, other: Any) -> PrimExpr:
        """The comparison as a term."""
        return binary(EQ, self, other)

    def __hash__(self) -> int:
        return hash((type(self), self.key(), self.children()))

    def __bool__(self) -> bool:
        raise ValueError(
            f"`{self}` has no truth value before it runs: use `T.And`, `T.Or`, "
            "`T.Select` or `T.if_then_else`"
        )

    def __str__(self) -> str:
        from relax_mlir.objects.prim_text import text_of

        return text_of(self)

    def __repr__(self) -> str:
        from relax_mlir.objects.prim_text import text_of

        return text_of(self)


_NUMBERS = (int, float, np.number, np.bool_)


class Var(PrimExpr):
    """A variable; two are the same only if they are one object."""

    __slots__ = ("name",)

    def __init__(
        self, name: str = "", dtype: Any = "int32", span: object = None
    ) -> None:
        self.name = name
        self.dtype = str(getattr(dtype, "dtype", dtype))

    @property
    def name_hint(self) -> str:
        """Its name, which readers may change where two collide."""
        return self.name

    def key(self) -> tuple[object, ...]:
        return (id(self),)


class SizeVar(Var):
    """A variable that is a size: not negative."""

    __slots__ = ()


class Range:
    """A run of integers: ``extent`` of them from ``min``."""

    def __init__(self, begin: Any, end: Any = None, span: object = None) -> None:
        low = convert(0 if end is None else begin)
        high = convert(begin if end is None else end)
        self.min = low
        self.extent = high - low

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: object = None) -> Range:
        """The run that starts at ``min_value`` and has ``extent`` members."""
        made = Range(0, 0)
        made.min, made.extent = convert(min_value), convert(extent)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and bool(
            structurally_equal(self.min, other.min)
            and structurally_equal(self.extent, other.extent)
        )

    def __hash__(self) -> int:
        return hash((self.min, self.extent))

    def __repr__(self) -> str:
        return f"Range({self.min}, {self.min + self.extent})"


class IterVar:
    """An axis of a block or of a computed tensor; in an expression it is its variable.

    Attributes:
        dom: its run.
        var: its variable.
        iter_type: ``DataPar`` 0 spatial, ``CommReduce`` 2 reduce, ...
        thread_tag: the thread axis it is bound to, or empty.
    """

    DataPar, ThreadIndex, CommReduce, Ordered, Opaque = 0, 1, 2, 3, 4

    def __init__(
        self,
        dom: Any,
        var: Any,
        iter_type: int = 0,
        thread_tag: str = "",
        span: object = None,
    ) -> None:
        self.dom = Range(*dom) if isinstance(dom, (tuple, list)) else dom
        extent = getattr(self.dom, "extent", None)
        dtype = "int32" if extent is None else extent.dtype
        self.var = Var(var, dtype) if isinstance(var, str) else var
        self.iter_type = iter_type
        self.thread_tag = thread_tag

    @property
    def dtype(self) -> str:
        """Type of its variable."""
        return self.var.dtype

    def __getattr__(self, name: str) -> Any:  # Any: arithmetic is the variable's
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.var, name)

    def __hash__(self) -> int:
        return hash(self.var)

    def __eq__(self, other: object) -> Any:
        return self.var == (other.var if isinstance(other, IterVar) else other)


def _forward(name: str) -> Callable[..., Any]:
    def method(self: IterVar, *args: Any) -> Any:
        return getattr(self.var, name)(*args)

    return method


for _name in (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"),
    *("__floordiv__", "__rfloordiv__", "__truediv__", "__mod__", "__rmod__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__ne__", "__neg__"),
    *("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"),
):
    setattr(IterVar, _name, _forward(_name))


class IntImm(PrimExpr):
    """An integer or a boolean."""

    __slots__ = ("value",)

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = str(dtype)
        self.value = int(value)

    def key(self) -> tuple[object, ...]:
        return (self.dtype, self.value)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __eq__(self, other: object) -> Any:
        if isinstance(other, _NUMBERS):
            return self.value == other
        return PrimExpr.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.value)


class FloatImm(PrimExpr):
    """A floating-point number."""

    __slots__ = ("value",)

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = str(dtype)
        self.value = float(value)

    def key(self) -> tuple[object, ...]:
        return (self.dtype, repr(self.value))

    def __float__(self) -> float:
        return self.value

    def __eq__(self, other: object) -> Any:
        if isinstance(other, _NUMBERS):
            return self.value == other
        return PrimExpr.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.value)


class StringImm(PrimExpr):
    """A string, as an argument of a call."""

    __slots__ = ("value",)

    def __init__(self, value: str, span: object = None) -> None:
        self.dtype = "handle"
        self.value = value

    def key(self) -> tuple[object, ...]:
        return (self.value,)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            return self.value == other
        return isinstance(other, StringImm) and self.value == other.value

    def __ne__(self, other: object) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)


class BinaryExpr(PrimExpr):
    """An operation on two scalars of one type; as a constructor it does not fold."""

    __slots__ = ("a", "b")
    fields = ("a", "b")
    symbol: ClassVar[str] = ""
    precedence: ClassVar[int] = 0
    fold: ClassVar[Callable[[Any, Any], Any]]
    is_comparison: ClassVar[bool] = False

    def __init__(self, a: Any, b: Any, span: object = None) -> None:
        self.a, self.b = matched(a, b)
        self.dtype = "bool" if self.is_comparison else self.a.dtype

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return binary(type(self), *children)


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
    """a / b; of integers it truncates."""

    __slots__ = ()
    symbol, precedence = "/", 10

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return a / b


class Mod(BinaryExpr):
    """The remainder with the sign of a (C's)."""

    __slots__ = ()

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return a - b * Div.fold(a, b)


class FloorDiv(BinaryExpr):
    """a // b, rounded down."""

    __slots__ = ()
    symbol, precedence, fold = "//", 10, staticmethod(operator.floordiv)


class FloorMod(BinaryExpr):
    """a % b with the sign of b."""

    __slots__ = ()
    symbol, precedence, fold = "%", 10, staticmethod(operator.mod)


class Min(BinaryExpr):
    """The smaller of two."""

    __slots__ = ()
    fold = staticmethod(min)


class Max(BinaryExpr):
    """The larger of two."""

    __slots__ = ()
    fold = staticmethod(max)


class Comparison(BinaryExpr):
    """Base of the comparisons."""

    __slots__ = ()
    is_comparison = True
    precedence = 4


class EQ(Comparison):
    """a == b; where Python asks for its truth: whether the two terms are the same."""

    __slots__ = ()
    symbol, fold = "==", staticmethod(operator.eq)

    def __bool__(self) -> bool:
        return structurally_equal(self.a, self.b)


class NE(Comparison):
    """a != b; where Python asks for its truth: whether the two terms differ."""

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
    """Both; the second is not evaluated where the first is false."""

    __slots__ = ()
    symbol, precedence, is_comparison = "and", 2, True

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return bool(a) and bool(b)


class Or(BinaryExpr):
    """Either; the second is not evaluated where the first is true."""

    __slots__ = ()
    symbol, precedence, is_comparison = "or", 1, True

    @staticmethod
    def fold(a: Any, b: Any) -> Any:
        return bool(a) or bool(b)


class Not(PrimExpr):
    """The other truth value."""

    __slots__ = ("a",)
    fields = ("a",)

    def __init__(self, a: Any, span: object = None) -> None:
        self.a = convert(a)
        self.dtype = "bool"

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Not(*children)


class Cast(PrimExpr):
    """The value in another type; as a constructor it does not fold."""

    __slots__ = ("value",)
    fields = ("value",)

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = str(dtype)
        self.value = convert(value)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return cast(self.dtype, *children)


class Select(PrimExpr):
    """One of two values, both of which are computed."""

    __slots__ = ("condition", "false_value", "true_value")
    fields = ("condition", "true_value", "false_value")

    def __init__(
        self, condition: Any, true_value: Any, false_value: Any, span: object = None
    ) -> None:
        self.condition = convert(condition)
        self.true_value, self.false_value = matched(true_value, false_value)
        self.dtype = self.true_value.dtype

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Select(*children)


class Let(PrimExpr):
    """``body`` with ``var`` standing for ``value``."""

    __slots__ = ("body", "value", "var")
    fields = ("var", "value", "body")

    def __init__(self, var: Var, value: Any, body: Any, span: object = None) -> None:
        self.var, self.value, self.body = var, convert(value), convert(body)
        self.dtype = self.body.dtype

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Let(*children)  # pyright: ignore[reportArgumentType]


class Call(PrimExpr):
    """A function of scalars, by name: ``exp``, ``if_then_else``, ``call_extern``, ...

    Attributes:
        op_name: the function, without TVM's ``tir.``.
    """

    __slots__ = ("args", "op_name")

    def __init__(
        self, dtype: str, op: Any, args: Sequence[Any], span: object = None
    ) -> None:
        name = op if isinstance(op, str) else op.name
        self.dtype = str(dtype)
        self.op_name = name.removeprefix("tir.").removeprefix("tirx.")
        self.args = tuple(convert(a) for a in args)

    def children(self) -> tuple[PrimExpr, ...]:
        return self.args

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Call(self.dtype, self.op_name, children)

    def key(self) -> tuple[object, ...]:
        return (self.dtype, self.op_name)


class CommReducer:
    """How the elements of a reduction are combined.

    Attributes:
        name: ``add``, ``mul``, ``max``, ``min``, ``and``, ``or``, or the name of a custom
            combiner.
        combine: from lists of accumulated and of new values to a list of values.
        identity: from element types to the values to start with.
    """

    def __init__(
        self,
        name: str,
        combine: Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], list[PrimExpr]],
        identity: Callable[[Sequence[str]], list[PrimExpr]],
    ) -> None:
        self.name = name
        self.combine = combine
        self.identity = identity


class Reduce(PrimExpr):
    """A reduction over axes; it may only be the whole body of a computed tensor."""

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")

    def __init__(
        self,
        combiner: CommReducer,
        source: Sequence[PrimExpr],
        axis: Sequence[IterVar],
        condition: PrimExpr | None = None,
        value_index: int = 0,
        init: Sequence[PrimExpr] = (),
    ) -> None:
        self.combiner = combiner
        self.source = tuple(source)
        self.axis = tuple(axis)
        self.condition = condition
        self.value_index = value_index
        self.init = tuple(init)
        self.dtype = self.source[value_index].dtype

    def children(self) -> tuple[PrimExpr, ...]:
        return self.source

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Reduce(
            self.combiner,
            children,
            self.axis,
            self.condition,
            self.value_index,
            self.init,
        )

    def key(self) -> tuple[object, ...]:
        return (self.combiner.name, tuple(id(a.var) for a in self.axis))


def convert(value: Any) -> Any:  # Any: numbers and terms in, terms out
    """A Python number as a term; terms stay what they are.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, (bool, np.bool_)):
        return IntImm("bool", value)
    if isinstance(value, int):
        fits = -(2**31) <= value < 2**31
        return IntImm("int32" if fits else "int64", value)
    if isinstance(value, np.integer):
        return IntImm(value.dtype.name, int(value))
    if isinstance(value, (float, np.floating)):
        name = value.dtype.name if isinstance(value, np.floating) else "float32"
        return FloatImm("float32" if name == "float64" else name, float(value))
    if isinstance(value, str):
        return StringImm(value)
    as_term = getattr(value, "as_prim_expr", None)
    if as_term is not None:
        return as_term()
    raise TypeError(f"expected a scalar expression or a number, got {value!r}")


def const(value: Any, dtype: str | None = None, span: object = None) -> PrimExpr:
    """A number as a term, of type ``dtype`` (by default int32, float32 or bool)."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if dtype is None:
        return convert(value)
    if str(dtype).startswith(("int", "uint", "bool")):
        return IntImm(dtype, value)
    return FloatImm(dtype, value)


def cast(dtype: str, value: Any) -> PrimExpr:
    """The value in another type; a number is converted here."""
    value = convert(value)
    if value.dtype == dtype:
        return value
    if isinstance(value, (IntImm, FloatImm)):
        is_bool = dtype == "bool"
        return const(value.value != 0 if is_bool else _converted(value, dtype), dtype)
    return Cast(dtype, value)


def _converted(value: IntImm | FloatImm, dtype: str) -> Any:
    return int(value.value) if dtype.startswith(("int", "uint")) else value.value


def matched(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both as terms of one type: a number takes the type of the other side."""
    plain_a, plain_b = not isinstance(a, PrimExpr), not isinstance(b, PrimExpr)
    a, b = convert(a), convert(b)
    if a.dtype == b.dtype:
        return a, b
    if plain_b and isinstance(b, (IntImm, FloatImm)) and _takes(a, b):
        return a, cast(a.dtype, b)
    if plain_a and isinstance(a, (IntImm, FloatImm)) and _takes(b, a):
        return cast(b.dtype, a), b
    wide = _common_type(a.dtype, b.dtype)
    return cast(wide, a), cast(wide, b)


def _takes(typed: PrimExpr, number: IntImm | FloatImm) -> bool:
    """Whether a Python number becomes of the type of the term beside it."""
    if isinstance(number, FloatImm):
        return typed.dtype.startswith(("float", "bfloat"))
    return typed.dtype != "handle"


def _common_type(a: str, b: str) -> str:
    """The type in which TVM computes with two others."""
    floats = [t for t in (a, b) if t.startswith(("float", "bfloat"))]
    if len(floats) == 1:
        return floats[0]
    return max((a, b), key=lambda t: (_bits(t), not t.startswith("u")))


def _bits(dtype: str) -> int:
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) if digits else 1


def binary(kind: type[BinaryExpr], a: Any, b: Any) -> PrimExpr:
    """``kind`` of two terms, folded where TVM folds."""
    try:
        a, b = matched(a, b)
    except TypeError:
        return NotImplemented
    folded = _folded(kind, a, b)
    return kind(a, b) if folded is None else folded


def _folded(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    numbers = (IntImm, FloatImm)
    if isinstance(a, numbers) and isinstance(b, numbers):
        divides = kind in (Div, Mod, FloorDiv, FloorMod)
        if divides and b.value == 0:
            raise ZeroDivisionError(f"division by zero: {a} {kind.symbol} {b}")
        value = kind.fold(a.value, b.value)
        if kind.is_comparison:
            return const(value, "bool")
        return const(_rounded(value, a.dtype), a.dtype)
    return _with_unit(kind, a, b)


def _rounded(value: Any, dtype: str) -> Any:
    """A number as a type has it, where that is a narrow type of floats."""
    if dtype in ("float16", "float32"):
        with np.errstate(over="ignore"):
            return float(np.dtype(dtype).type(value))
    return value


def _with_unit(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """``x + 0``, ``x * 1`` and the like."""
    left = a.value if isinstance(a, (IntImm, FloatImm)) else None
    right = b.value if isinstance(b, (IntImm, FloatImm)) else None
    if kind is Add and right == 0:
        return a
    if kind is Add and left == 0:
        return b
    if kind is Sub and right == 0:
        return a
    if kind in (Mul, Div, FloorDiv) and right == 1:
        return a
    if kind is Mul and left == 1:
        return b
    if kind is Mul and 0 in (left, right):
        return const(0, a.dtype)
    if kind is FloorMod and right == 1 and a.is_integer:
        return const(0, a.dtype)
    if kind in (FloorDiv, FloorMod) and left == 0:
        return a
    return _with_truth(kind, a, b)


def _with_truth(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    for one, other in ((a, b), (b, a)):
        if kind in (And, Or) and isinstance(one, IntImm):
            keeps = bool(one.value) == (kind is And)
            return other if keeps else one
    return None


def _true_divide(a: Any, b: Any) -> PrimExpr:
    try:
        pair = matched(a, b)
    except TypeError:
        return NotImplemented
    if pair[0].is_integer:
        raise TypeError(
            "`/` of integers is ambiguous: use `//` (rounds down) or `T.truncdiv`"
        )
    return binary(Div, *pair)


def _bitwise(name: str, logical: type[BinaryExpr] | None, a: Any, b: Any) -> PrimExpr:
    try:
        a, b = matched(a, b)
    except TypeError:
        return NotImplemented
    if a.dtype == "bool" and logical is not None:
        return binary(logical, a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return const(_BITWISE[name](a.value, b.value), a.dtype)
    return Call(a.dtype, name, [a, b])


_BITWISE: Mapping[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}


def structurally_equal(a: Any, b: Any) -> bool:
    """Whether two terms are made of the same operations on the same variables."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, PrimExpr):
        return isinstance(a, PrimExpr) and isinstance(b, PrimExpr) and _equal_imm(a, b)
    if isinstance(a, (IntImm, FloatImm)):
        return a.value == b.value
    if a.key() != b.key():
        return False
    theirs, ours = a.children(), b.children()
    return len(theirs) == len(ours) and all(map(structurally_equal, theirs, ours))


def _equal_imm(a: PrimExpr, b: PrimExpr) -> bool:
    numbers = (IntImm, FloatImm)
    return isinstance(a, numbers) and isinstance(b, numbers) and a.value == b.value


def substitute(expr: PrimExpr, values: Mapping[Var, Any]) -> PrimExpr:
    """``expr`` with variables replaced."""
    if isinstance(expr, Var):
        for var, value in values.items():
            if var is expr:
                return convert(value)
        return expr
    children = expr.children()
    if not children:
        return expr
    new = tuple(substitute(child, values) for child in children)
    if all(map(operator.is_, new, children)):
        return expr
    return expr.with_children(new)


def post_order(expr: PrimExpr) -> Iterator[PrimExpr]:
    """All terms in ``expr``, operands first."""
    for child in expr.children():
        yield from post_order(child)
    yield expr
