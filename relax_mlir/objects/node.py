"""What every Relax expression can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from relax_mlir.objects.printing import Printed

if TYPE_CHECKING:
    from relax_mlir.objects.struct_info import StructInfo

__all__ = ["Expr", "register_operator"]

# How Python's operators on expressions are built; the operators' module fills it in.
_OPERATORS: dict[str, Callable[..., Any]] = {}


def register_operator(name: str, build: Callable[..., Any]) -> None:
    """Say what ``name`` (``add``, ``getitem``, ``call``, ...) builds."""
    _OPERATORS[name] = build


class Expr(Printed):
    """A Relax expression: it stands in a function, or it is a term that stands nowhere.

    Attributes:
        struct_info: what is known of its value; None where nothing was inferred yet.
        span: where it comes from.
    """

    span: object = None
    _struct_info: StructInfo | None = None
    __array_ufunc__ = None

    @property
    def struct_info(self) -> StructInfo:
        """What is known of the value.

        Raises:
            ValueError: nothing was inferred yet; `BlockBuilder.normalize` does.
        """
        found = self.struct_info_or_none()
        if found is None:
            raise ValueError(
                f"`{type(self).__name__}` has no struct info yet: expected a term that "
                "was normalized. `BlockBuilder.normalize` or `emit` infers it."
            )
        return found

    def struct_info_or_none(self) -> StructInfo | None:
        """What is known of the value, or None."""
        return self._struct_info

    @property
    def struct_info_(self) -> StructInfo | None:
        """TVM's first spelling of ``struct_info``."""
        return self.struct_info_or_none()

    @property
    def ty(self) -> StructInfo | None:
        """TVM's newest spelling of ``struct_info``."""
        return self.struct_info_or_none()

    @property
    def checked_type(self) -> StructInfo:
        """TVM's older spelling of ``struct_info``."""
        return self.struct_info

    @property
    def _checked_type_(self) -> StructInfo | None:
        return self.struct_info_or_none()

    @property
    def checked_type_(self) -> StructInfo | None:
        """TVM's oldest spelling of ``struct_info``."""
        return self.struct_info_or_none()

    @property
    def shape_(self) -> Any:  # Any: a ShapeExpr or None
        """The shape of a tensor, where it is known; TVM's older spelling."""
        return getattr(self.struct_info_or_none(), "shape", None)

    @property
    def shape(self) -> Any:  # Any: see shape_; or what is asked by axis
        """The shape of a tensor, where it is known; else its sizes can be asked for."""
        known = self.shape_
        return _OPERATORS["sizes"](self) if known is None else known

    @property
    def dtype(self) -> Any:
        """The element type of a tensor, of which ``type_code``, ``bits`` and ``lanes``
        can be asked when the program runs."""
        return _OPERATORS["dtype"](self)

    @property
    def ndim(self) -> Any:
        """The rank of a tensor, asked when the program runs."""
        return _OPERATORS["ndim"](self)

    @property
    def strides(self) -> Any:
        """How far apart the elements of a tensor lie, asked by axis."""
        return _OPERATORS["strides"](self)

    @property
    def byte_offset(self) -> Any:
        """Where a tensor begins in its memory, in bytes."""
        return _OPERATORS["byte_offset"](self)

    @property
    def elem_offset(self) -> Any:
        """Where a tensor begins in its memory, in elements."""
        return _OPERATORS["elem_offset"](self)

    def same_as(self, other: object) -> bool:
        """Whether it is the same expression."""
        return self is other or (isinstance(other, Expr) and bool(self == other))

    def astype(self, dtype: str) -> Any:
        """The tensor in another element type."""
        return _OPERATORS["astype"](self, dtype)

    def __call__(self, *args: Any, attrs: Any = None) -> Any:
        return _OPERATORS["call"](self, args, attrs)

    def __getitem__(self, index: Any) -> Any:
        return _OPERATORS["getitem"](self, index)

    def __iter__(self) -> Iterator[Any]:
        """The fields of a tuple; Python would ask others for elements without end."""
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
