"""Base class of scalar expressions, with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.objects.argument_checks import dtype_of
from relax_mlir.objects.prim.scripted import Scripted

__all__ = ["NUMBERS", "PrimExpr"]


NUMBERS = (int, float, np.number, np.bool_)  # Python and numpy scalars


class PrimExpr(Scripted):
    """A scalar: a variable, a constant, or an operation on scalars.

    Attributes:
        dtype: ``int32``, ``int64``, ``float32``, ``bool``, ...
    """

    __slots__ = ("dtype",)
    fields: ClassVar[tuple[str, ...]] = ()  # names of the operands, in order
    __array_ufunc__ = None  # otherwise numpy applies operators element by element

    dtype: str

    def children(self) -> tuple[PrimExpr, ...]:
        """The operands."""
        return tuple(getattr(self, name) for name in self.fields)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        """The same operation on other operands."""
        return self

    def key(self) -> tuple[object, ...]:
        """The identifying fields besides class and operands."""
        return (self.dtype,)

    def same_as(self, other: object) -> bool:
        """Whether it is structurally the same expression, or an equal number."""
        from relax_mlir.objects.prim.traversal import structurally_equal

        return isinstance(other, PrimExpr) and structurally_equal(self, other)

    def astype(self, dtype: str, span: object = None) -> PrimExpr:
        """The value cast to another type.

        Raises:
            TypeError: ``dtype`` is not an element type.
        """
        from relax_mlir.objects.prim.conversion import cast

        return cast(dtype_of(dtype, "astype: `dtype`"), self)

    @property
    def is_integer(self) -> bool:
        """Whether its type is a signed or unsigned integer of any width."""
        return self.dtype.startswith(("int", "uint"))

    def __add__(self, other: Any) -> PrimExpr:  # Any: Python and numpy numbers, too
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

    def __eq__(self, other: object) -> Any:  # Any: an expression; see `EQ.__bool__`
        if not isinstance(other, (PrimExpr, *NUMBERS)):
            return False
        return _apply("==", self, other)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, (PrimExpr, *NUMBERS)):
            return True
        return _apply("!=", self, other)

    def equal(self, other: Any) -> PrimExpr:
        """The comparison as an expression."""
        return _apply("==", self, other)

    def __hash__(self) -> int:
        return hash((type(self), self.key(), self.children()))

    def __bool__(self) -> bool:
        raise ValueError(
            f"`{self}` has no truth value before it runs: use `T.And`, `T.Or`, "
            "`T.Select` or `T.if_then_else`"
        )

    def __str__(self) -> str:
        from relax_mlir.objects.prim.script_text import prim_expr_script

        return prim_expr_script(self)

    def __repr__(self) -> str:
        from relax_mlir.objects.prim.script_text import prim_expr_script

        return prim_expr_script(self)


def _apply(operator: str, *operands: Any) -> PrimExpr:
    result = _operators()[operator](*operands)
    if result is NotImplemented:
        _check_operands(operator, *operands)
    return result


# Reflected methods, which Python tries on the right operand.
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
    """Rejects operands for which no operand's class implements the operator.

    Raises:
        OperatorError: no operand does.
    """
    for other in right if isinstance(left, PrimExpr) else ():
        name = f"__{_REFLECTED[operator]}__"
        own = getattr(type(other), name, None)
        if own not in (None, getattr(object, name, None), getattr(PrimExpr, name)):
            return
    operands = ", ".join(map(short_repr, (left, *right)))
    raise OperatorError(
        f"`{operator}`: expected numbers and scalar expressions, got {operands}"
    )


@cache
def _operators() -> Mapping[str, Callable[..., PrimExpr]]:
    """The operator table; imported late, because it depends on this module."""
    from relax_mlir.objects.prim.arithmetic import OPERATORS

    return OPERATORS
