"""Variables, their ranges, iteration variables and let expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from relax_mlir.errors import short_repr
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.prim.constants import convert, type_name
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.scripted import Scripted
from relax_mlir.objects.prim.traversal import structurally_equal

__all__ = ["IterVar", "Let", "Range", "SizeVar", "Var"]


V = TypeVar("V", bound="Var")


class Var(PrimExpr):
    """A variable; compared by identity."""

    __slots__ = ("name",)

    def __new__(  # noqa: PYI019 (Self is of Python 3.11)
        cls: type[V], name: str = "", dtype: Any = "int32", *rest: Any, **_: Any
    ) -> V:
        """A variable, or a pointer variable if ``dtype`` is a pointer type."""
        make = getattr(dtype, "variable_class", None)
        return super().__new__(make() if make and cls is Var else cls)  # pyright: ignore[reportArgumentType]

    def __init__(
        self, name: str = "", dtype: Any = "int32", span: object = None
    ) -> None:
        self.name = instance_of(name, str, "tir.Var: `name`", "a string")
        self.dtype = type_name(getattr(dtype, "dtype", dtype))

    @property
    def name_hint(self) -> str:
        """Its name, which the printer makes unique."""
        return self.name

    def key(self) -> tuple[object, ...]:
        return (id(self),)


class SizeVar(Var):
    """A variable that is a size: non-negative."""

    __slots__ = ()


class Range(Scripted):
    """A half-open integer interval: ``extent`` integers from ``min``."""

    def __init__(self, begin: Any, end: Any = None, span: object = None) -> None:
        low = convert(0 if end is None else begin)
        high = convert(begin if end is None else end)
        self.min = low
        self.extent = high - low

    @staticmethod
    def of(run: Any) -> Range:
        """A range from a range, an extent, or a (begin, end) pair.

        Raises:
            TypeError: the value is neither.
        """
        if isinstance(run, Range):
            return run
        ends = sequence_of(run, "a range", "a begin and an end")
        if len(ends) not in (1, 2):
            raise TypeError(
                f"a range: expected a begin and an end, got {short_repr(run)}"
            )
        return Range(*ends)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: object = None) -> Range:
        """The range of ``extent`` integers from ``min_value``."""
        result = Range(0, 0)
        result.min, result.extent = convert(min_value), convert(extent)
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and bool(
            structurally_equal(self.min, other.min)
            and structurally_equal(self.extent, other.extent)
        )

    def __hash__(self) -> int:
        return hash((self.min, self.extent))

    def __repr__(self) -> str:
        return f"Range({self.min}, {self.min + self.extent})"


class IterVar(Scripted):
    """An iteration variable: an axis of a block or of a computed tensor.

    In an expression it stands for its variable.

    Attributes:
        dom: its domain, a :class:`Range`.
        var: its variable.
        iter_type: ``DataPar`` 0 spatial, ``CommReduce`` 2 reduction, ...
        thread_tag: the bound thread axis, such as ``threadIdx.x``, or empty.
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
        self.dom: Any = None if dom is None else Range.of(dom)
        extent = None if self.dom is None else self.dom.extent
        dtype = "int32" if extent is None else extent.dtype
        self.var = Var(var, dtype) if isinstance(var, str) else var
        instance_of(self.var, Var, "IterVar: `var`", "a variable or its name")
        self.iter_type = iter_type
        self.thread_tag = thread_tag

    @property
    def dtype(self) -> str:
        """Element type of its variable."""
        return self.var.dtype

    def as_prim_expr(self) -> Var:
        """Its variable, when an expression is expected."""
        return self.var

    def __getattr__(self, name: str) -> Any:  # Any: forwards to the variable
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


class Let(PrimExpr):
    """``body`` with ``var`` bound to ``value``."""

    __slots__ = ("body", "value", "var")
    fields = ("var", "value", "body")

    def __init__(self, var: Var, value: Any, body: Any, span: object = None) -> None:
        self.var, self.value, self.body = var, convert(value), convert(body)
        self.dtype = self.body.dtype

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Let(*children)  # pyright: ignore[reportArgumentType]
