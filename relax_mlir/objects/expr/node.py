"""Base class of Relax expressions, with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from relax_mlir.objects.printing import Printed

if TYPE_CHECKING:
    from relax_mlir.objects.expr.struct_info import StructInfo

__all__ = ["Expr", "register_operator"]

# Builders of Python's operators; the operators' module registers them.
_OPERATORS: dict[str, Callable[..., Any]] = {}


def register_operator(name: str, build: Callable[..., Any]) -> None:
    """Registers the builder of an operator (``add``, ``getitem``, ``call``, ...)."""
    _OPERATORS[name] = build


class Expr(Printed):
    """A Relax expression, read from a function or free-standing.

    Attributes:
        struct_info: struct info of its value; None before inference.
        span: its source location.
    """

    span: object = None
    _struct_info: StructInfo | None = None
    __array_ufunc__ = None

    @property
    def struct_info(self) -> StructInfo:
        """Struct info of the value.

        Raises:
            ValueError: it is not inferred yet; see `BlockBuilder.normalize`.
        """
        info = self.struct_info_or_none()
        if info is None:
            raise ValueError(
                f"`{type(self).__name__}` has no struct info yet: expected a normalized "
                "expression. `BlockBuilder.normalize` or `emit` infers it."
            )
        return info

    def struct_info_or_none(self) -> StructInfo | None:
        """Struct info of the value, or None before inference."""
        return self._struct_info

    @property
    def struct_info_(self) -> StructInfo | None:
        """Alias of ``struct_info_or_none()`` in TVM's first releases."""
        return self.struct_info_or_none()

    @property
    def ty(self) -> StructInfo | None:
        """Alias of ``struct_info_or_none()`` in TVM's newest releases."""
        return self.struct_info_or_none()

    @property
    def checked_type(self) -> StructInfo:
        """Older alias of ``struct_info`` in TVM."""
        return self.struct_info

    @property
    def _checked_type_(self) -> StructInfo | None:
        return self.struct_info_or_none()

    @property
    def checked_type_(self) -> StructInfo | None:
        """Oldest alias of ``struct_info_or_none()`` in TVM."""
        return self.struct_info_or_none()

    @property
    def shape_(self) -> Any:  # Any: a ShapeExpr or None
        """The shape of a tensor if known, else None; older alias in TVM."""
        return getattr(self.struct_info_or_none(), "shape", None)

    @property
    def shape(self) -> Any:  # Any: see shape_; or sizes read at run time
        """The shape of a tensor if known; otherwise an accessor of its run-time sizes."""
        known = self.shape_
        return _OPERATORS["sizes"](self) if known is None else known

    @property
    def dtype(self) -> Any:
        """Accessor of the run-time element type: ``type_code``, ``bits`` and ``lanes``."""
        return _OPERATORS["dtype"](self)

    @property
    def ndim(self) -> Any:
        """The run-time rank of a tensor."""
        return _OPERATORS["ndim"](self)

    @property
    def strides(self) -> Any:
        """Accessor of the run-time strides of a tensor, in elements, by axis."""
        return _OPERATORS["strides"](self)

    @property
    def byte_offset(self) -> Any:
        """The run-time offset of a tensor in its memory, in bytes."""
        return _OPERATORS["byte_offset"](self)

    @property
    def elem_offset(self) -> Any:
        """The run-time offset of a tensor in its memory, in elements."""
        return _OPERATORS["elem_offset"](self)

    def same_as(self, other: object) -> bool:
        """Whether it is the same or an equal expression."""
        return self is other or (isinstance(other, Expr) and bool(self == other))

    def astype(self, dtype: str) -> Any:
        """The tensor cast to another element type."""
        return _OPERATORS["astype"](self, dtype)

    def __call__(self, *args: Any, attrs: Any = None) -> Any:
        return _OPERATORS["call"](self, args, attrs)

    def __getitem__(self, index: Any) -> Any:
        return _OPERATORS["getitem"](self, index)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the fields of a tuple.

        Other values raise: Python would index them without end.

        Raises:
            TypeError: it is not a tuple.
        """
        info = self.struct_info_or_none()
        fields = getattr(info, "fields", None)
        if fields is None:
            raise TypeError(f"`{self!r}`: expected a tuple to iterate over, got {info}")
        return (self[number] for number in range(len(fields)))

    def __neg__(self) -> Any:
        return _OPERATORS["negative"](self)


def _operator(name: str, swap: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return _OPERATORS[name](*((other, self) if swap else (self, other)))

    return method


for _python, _relax in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "mod",
    "pow": "power",
}.items():
    setattr(Expr, f"__{_python}__", _operator(_relax, swap=False))
    setattr(Expr, f"__r{_python}__", _operator(_relax, swap=True))
for _python, _relax in {
    "lt": "less",
    "gt": "greater",
    "le": "less_equal",
    "ge": "greater_equal",
}.items():
    setattr(Expr, f"__{_python}__", _operator(_relax, swap=False))
