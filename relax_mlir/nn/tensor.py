"""Tensors of a network: expressions whose shape and element type are known at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.argument_types import check_exports
from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.expr import DataflowVar, Expr, TupleGetItem, Var, const
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.terms import Term
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax import op
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.runtime.ndarray import NDArray, shared

__all__ = [
    "Object",
    "Parameter",
    "Tensor",
    "current_builder",
    "get_default_dtype",
    "set_default_dtype",
    "wrap_nested",
]

_default_dtype = "float32"


def get_default_dtype() -> str:
    """The element type of parameters that are given none; float32 at first."""
    return _default_dtype


def set_default_dtype(dtype: str) -> None:
    """Set the element type of parameters that are given none."""
    global _default_dtype
    _default_dtype = dtype


class Tensor:
    """A tensor of the graph that is being built; it has no elements yet.

    Operators on tensors add a binding to the graph. A number beside a tensor is a constant
    of the tensor's element type.
    """

    def __init__(self, *, _expr: Expr) -> None:
        self._expr = _of_known_shape(_expr)

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant, from an array."""
        return Tensor(_expr=const(data))

    @staticmethod
    def from_scalar(data: float, dtype: str) -> Tensor:
        """A constant of rank 0, from a number."""
        return Tensor(_expr=const(data, dtype))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """A tensor of which this is known."""
        return Tensor(_expr=Var(name, struct_info))

    @staticmethod
    def from_ty(ty: TensorStructInfo, name: str = "tensor") -> Tensor:
        """TVM's newest spelling of ``from_struct_info``."""
        return Tensor.from_struct_info(ty, name)

    @staticmethod
    def placeholder(
        shape: Sequence[Term | str], dtype: str, name: str = "tensor"
    ) -> Tensor:
        """A tensor with this shape, such as the result of a function from elsewhere.

        Args:
            shape: numbers, terms of type int64, or names of new symbolic sizes.
            dtype: element type.
            name: what the graph calls it.

        Raises:
            ValueError: a size is negative, or a term is not int64.
            TypeError: a size is something else.
        """
        info = TensorStructInfo([_size(s) for s in shape], dtype)
        return Tensor(_expr=Var(name, info))

    def as_expr(self) -> Expr:
        """The expression that it is."""
        return self._expr

    @property
    def _info(self) -> TensorStructInfo:
        info = self._expr.struct_info
        assert isinstance(info, TensorStructInfo)
        return info

    @property
    def shape(self) -> list[Any]:  # numbers, and terms for symbolic sizes
        """Its sizes: a number where it is known, a term where it is not."""
        return [s.value if isinstance(s, prim.IntImm) else s for s in self._info.shape]

    @property
    def ndim(self) -> int:
        """Its rank."""
        return self._info.ndim

    @property
    def dtype(self) -> str:
        """Its element type."""
        return self._info.dtype

    def __repr__(self) -> str:
        return f'Tensor({self.shape}, "{self.dtype}")'

    def _scalar(self, other: Any) -> Expr:
        """The other side of an operator as an expression."""
        if isinstance(other, (prim.IntImm, prim.FloatImm)):
            other = other.value
        if isinstance(other, (int, float)):
            return const(other, self.dtype)
        if not isinstance(other, Tensor):
            raise TypeError(f"expected a tensor or a number, got {shown(other)}")
        return other._expr

    def __add__(self, other: Any) -> Tensor:
        return wrap_nested(op.add(self._expr, self._scalar(other)), "add")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        return wrap_nested(op.subtract(self._expr, self._scalar(other)), "subtract")

    def __rsub__(self, other: Any) -> Tensor:
        return wrap_nested(op.subtract(self._scalar(other), self._expr), "subtract")

    def __mul__(self, other: Any) -> Tensor:
        return wrap_nested(op.multiply(self._expr, self._scalar(other)), "mul")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tensor:
        return wrap_nested(op.divide(self._expr, self._scalar(other)), "divide")

    def __lt__(self, other: Any) -> Tensor:
        return wrap_nested(op.less(self._expr, self._scalar(other)), "less")

    def __le__(self, other: Any) -> Tensor:
        return wrap_nested(op.less_equal(self._expr, self._scalar(other)), "less_equal")

    def __gt__(self, other: Any) -> Tensor:
        return wrap_nested(op.greater(self._expr, self._scalar(other)), "greater")

    def __ge__(self, other: Any) -> Tensor:
        value = op.greater_equal(self._expr, self._scalar(other))
        return wrap_nested(value, "greater_equal")

    def astype(self, dtype: str) -> Tensor:
        """The same values in another element type."""
        if self.dtype == dtype:
            return self
        return wrap_nested(op.astype(self._expr, dtype), "astype")

    def maximum(self, other: Any) -> Tensor:
        """The larger of two, element by element."""
        return wrap_nested(op.maximum(self._expr, self._scalar(other)), "maximum")

    def minimum(self, other: Any) -> Tensor:
        """The smaller of two, element by element."""
        return wrap_nested(op.minimum(self._expr, self._scalar(other)), "minimum")

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one size may be -1."""
        return wrap_nested(op.reshape(self._expr, shape), "reshape")

    def permute_dims(self, *axes: int) -> Tensor:
        """The dimensions in another order."""
        return wrap_nested(op.permute_dims(self._expr, axes), "permute_dims")

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each element ``repeats`` times, along one axis or flat."""
        return wrap_nested(op.repeat(self._expr, repeats, axis), "repeat")


def _of_known_shape(expr: Expr) -> Expr:
    """The expression, which is a tensor whose rank and sizes are known.

    Raises:
        ValueError: it is not.
    """
    info = expr.struct_info_or_none()
    is_tensor = isinstance(info, TensorStructInfo)
    if not is_tensor or not isinstance(info.shape, ShapeExpr):
        raise ValueError(f"expected a tensor of known shape, got {info}")
    return expr


def _size(size: Any) -> PrimExpr:
    if isinstance(size, str):
        return prim.Var(size, "int64")
    if isinstance(size, prim.IntImm):
        size = size.value
    if isinstance(size, int):
        if size < 0:
            raise ValueError(f"size {size}: expected a number that is not negative")
        return prim.IntImm("int64", size)
    if not isinstance(size, PrimExpr):
        raise TypeError(f"size {size!r}: expected a number, a name or a term")
    if size.dtype != "int64":
        raise ValueError(f"size `{size}`: expected a term of int64, got {size.dtype}")
    return size


class Parameter(Tensor):
    """A weight: a tensor that a function takes, with or without elements.

    Args:
        shape: numbers, terms, or names of symbolic sizes.
        dtype: element type; that of :func:`get_default_dtype` if none is given.

    Attributes:
        attrs: whatever belongs to it.
    """

    def __init__(self, shape: Sequence[Term | str], dtype: str | None = None) -> None:
        made = Tensor.placeholder(shape, dtype or get_default_dtype(), "param")
        super().__init__(_expr=made.as_expr())
        self._data: NDArray | None = None
        self.attrs: dict[str, Any] = {}

    def stand_for(self, expr: Expr) -> None:
        """From here on it is ``expr``: a parameter of a function, or a part of one."""
        self._expr = _of_known_shape(expr)

    @property
    def data(self) -> NDArray | None:
        """Its elements, or None if it was given none."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        if data is None:
            self._data = None
            return
        if not hasattr(data, "__dlpack__"):
            raise TypeError(f"expected an array, got {type(data).__name__}")
        array = shared(data)
        if array.shape != tuple(self.shape):
            raise ValueError(
                f"Shape mismatch: expected {tuple(self.shape)}, got {array.shape}"
            )
        if array.dtype != self.dtype:
            raise ValueError(
                f"Dtype mismatch: expected {self.dtype}, got {array.dtype}"
            )
        self._data = array

    def to(self, dtype: str | None = None) -> None:
        """Change the element type.

        Raises:
            ValueError: it has elements already.
        """
        if dtype is None:
            return
        if self._data is not None:
            raise ValueError(
                "parameter has elements: expected none when its element type changes. "
                "Convert the array, and set `data` after `to`."
            )
        self._expr = Tensor.placeholder(self.shape, dtype, "param").as_expr()


class Object:
    """A value of the graph that is no tensor, such as a cache."""

    def __init__(self, *, _expr: Expr, _name: str) -> None:
        if not isinstance(_expr, Var):
            _expr = current_builder().emit(_expr, _name)
        info = _expr.struct_info_or_none()
        if not isinstance(info, ObjectStructInfo):
            raise ValueError(f"object `{_name}`: expected `R.Object`, got {info}")
        self._expr = _expr

    def as_expr(self) -> Expr:
        """The expression that it is."""
        return self._expr


def current_builder() -> BlockBuilder:
    """The builder of the graph that is being made.

    Raises:
        ValueError: none is open.
    """
    builder = BlockBuilder.current()
    if builder is None:
        raise ValueError(
            "a network's operators were called outside of a graph: expected a call inside "
            "of `export_tvm`, or of `with BlockBuilder().function(...)`"
        )
    return builder


def wrap_nested(expr: Expr, name: str) -> Any:  # Any: a tensor, or a tuple of such
    """Bind an expression in the open graph: a tensor, or a tuple of such.

    Args:
        expr: what is computed.
        name: what the graph calls it; elements of a tuple have their number behind.

    Raises:
        TypeError: it gives neither.
    """
    if not isinstance(expr, DataflowVar):
        expr = current_builder().emit(expr, name)
    info: StructInfo = expr.struct_info
    if isinstance(info, TensorStructInfo):
        return Tensor(_expr=expr)
    if isinstance(info, TupleStructInfo):
        count = len(info.fields)
        return tuple(
            wrap_nested(TupleGetItem(expr, i), f"{name}.{i}") for i in range(count)
        )
    raise TypeError(f"`{name}` gives {info}: expected a tensor or a tuple of tensors")


check_exports(globals())
