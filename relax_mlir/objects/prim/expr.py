"""What all scalar expressions have in common, the operators of Python among it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from relax_mlir.errors import OperatorError, shown
from relax_mlir.objects.argument_checks import dtype_of
from relax_mlir.objects.prim.scripted import Scripted

__all__ = ["NUMBERS", "PrimExpr"]


NUMBERS = (int, float, np.number, np.bool_)  # of Python and numpy


class PrimExpr(Scripted):
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
        from relax_mlir.objects.prim.traversal import structurally_equal

        return isinstance(other, PrimExpr) and structurally_equal(self, other)

    def astype(self, dtype: str, span: object = None) -> PrimExpr:
        """The value in another type.

        Raises:
            TypeError: ``dtype`` is none.
        """
        from relax_mlir.objects.prim.conversion import cast

        return cast(dtype_of(dtype, "astype: `dtype`"), self)

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer of any width, sign included."""
        return self.dtype.startswith(("int", "uint"))

    def __add__(self, other: Any) -> PrimExpr:  # Any: numbers of every kind
        return _apply("+", self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return _apply("+", other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return _apply("-", self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return _apply("-", other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return _apply("*", self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return _apply("*", other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return _apply("/", self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return _apply("/", other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return _apply("//", self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return _apply("//", other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return _apply("%", self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return _apply("%", other, self)

    def __neg__(self) -> PrimExpr:
        return _apply("*", self, -1)

    def __and__(self, other: Any) -> PrimExpr:
        return _apply("&", self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return _apply("&", other, self)

    def __or__(self, other: Any) -> PrimExpr:
        return _apply("|", self, other)

    def __ror__(self, other: Any) -> PrimExpr:
        return _apply("|", other, self)

    def __xor__(self, other: Any) -> PrimExpr:
        return _apply("^", self, other)

    def __rxor__(self, other: Any) -> PrimExpr:
        return _apply("^", other, self)

    def __lshift__(self, other: Any) -> PrimExpr:
        return _apply("<<", self, other)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return _apply("<<", other, self)

    def __rshift__(self, other: Any) -> PrimExpr:
        return _apply(">>", self, other)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return _apply(">>", other, self)

    def __invert__(self) -> PrimExpr:
        return _apply("~", self)

    def __lt__(self, other: Any) -> PrimExpr:
        return _apply("<", self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return _apply("<=", self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return _apply(">", self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return _apply(">=", self, other)

    def __eq__(self, other: object) -> Any:  # Any: a term, which is true where it must
        if not isinstance(other, (PrimExpr, *NUMBERS)):
            return False
        return _apply("==", self, other)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, (PrimExpr, *NUMBERS)):
            return True
        return _apply("!=", self, other)

    def equal(self, other: Any) -> PrimExpr:
        """The comparison as a term."""
        return _apply("==", self, other)

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


def _apply(operator: str, *terms: Any) -> PrimExpr:
    made = _operators()[operator](*terms)
    if made is NotImplemented:
        _check_operands(operator, *terms)
    return made


# What Python calls on the right operand when the left one cannot be the first.
_REFLECTED = {
    "+": "radd",
    "-": "rsub",
    "*": "rmul",
    "/": "rtruediv",
    "//": "rfloordiv",
    "%": "rmod",
    "&": "rand",
    "|": "ror",
    "^": "rxor",
    "<<": "rlshift",
    ">>": "rrshift",
    "<": "gt",
    "<=": "ge",
    ">": "lt",
    ">=": "le",
    "==": "eq",
    "!=": "ne",
}


def _check_operands(operator: str, left: Any, *right: Any) -> None:
    """Refuse operands of which Python would find none that knows the operator.

    Raises:
        OperatorError: it would.
    """
    for other in right if isinstance(left, PrimExpr) else ():
        name = f"__{_REFLECTED[operator]}__"
        own = getattr(type(other), name, None)
        if own not in (None, getattr(object, name, None), getattr(PrimExpr, name)):
            return
    operands = ", ".join(map(shown, (left, *right)))
    raise OperatorError(
        f"`{operator}`: expected numbers and scalar expressions, got {operands}"
    )


@cache
def _operators() -> Mapping[str, Callable[..., PrimExpr]]:
    """The operators of Python; what they make are terms, so defined after this."""
    from relax_mlir.objects.prim.arithmetic import OPERATORS

    return OPERATORS
