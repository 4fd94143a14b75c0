"""Tensors and parameters of a network: expressions with known shape and element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import DataflowVar, Expr, TupleGetItem, Var, const
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.runtime.ndarray import NDArray, shared
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax import op

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
    """The default element type of parameters, initially float32."""
    return _default_dtype


def set_default_dtype(dtype: str) -> None:
    """Set the default element type of parameters."""
    global _default_dtype
    _default_dtype = dtype


class Tensor:
    """A symbolic tensor in the function being built.

    Operators on tensors emit bindings. A Python number as the other operand becomes a
    constant of the tensor's element type.
    """

    def __init__(self, *, _expr: Expr) -> None:
        self._expr = _of_known_shape(_expr)

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant from an array."""
        return Tensor(_expr=const(data))

    @staticmethod
    def from_scalar(data: float, dtype: str) -> Tensor:
        """A scalar constant from a number."""
        return Tensor(_expr=const(data, dtype))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """A tensor variable with given struct info."""
        return Tensor(_expr=Var(name, struct_info))

    @staticmethod
    def from_ty(ty: TensorStructInfo, name: str = "tensor") -> Tensor:
        """TVM's newest name of ``from_struct_info``."""
        return Tensor.from_struct_info(ty, name)

    @staticmethod
    def placeholder(
        shape: Sequence[PrimExprLike | str], dtype: str, name: str = "tensor"
    ) -> Tensor:
        """A tensor variable with a given shape, such as the result of an external function.

        Args:
            shape: numbers, int64 expressions, or names of new symbolic sizes.
            dtype: element type.
            name: name of the variable.

        Raises:
            ValueError: a size is negative, or an expression is not int64.
            TypeError: a size is of another type.
        """
        info = TensorStructInfo([_size(s) for s in shape], dtype)
        return Tensor(_expr=Var(name, info))

    def as_expr(self) -> Expr:
        """The underlying expression."""
        return self._expr

    @property
    def _info(self) -> TensorStructInfo:
        info = self._expr.struct_info
        assert isinstance(info, TensorStructInfo)
        return info

    @property
    def shape(self) -> list[Any]:  # int, or PrimExpr for symbolic sizes
        """Its shape: ints, and expressions for symbolic sizes."""
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
        """The other operand of an operator as an expression."""
        if isinstance(other, (prim.IntImm, prim.FloatImm)):
            other = other.value
        if isinstance(other, (int, float)):
            return const(other, self.dtype)
        if not isinstance(other, Tensor):
            raise TypeError(f"expected a tensor or a number, got {short_repr(other)}")
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
        """Cast to another element type."""
        if self.dtype == dtype:
            return self
        return wrap_nested(op.astype(self._expr, dtype), "astype")

    def maximum(self, other: Any) -> Tensor:
        """Elementwise maximum."""
        return wrap_nested(op.maximum(self._expr, self._scalar(other)), "maximum")

    def minimum(self, other: Any) -> Tensor:
        """Elementwise minimum."""
        return wrap_nested(op.minimum(self._expr, self._scalar(other)), "minimum")

    def reshape(self, *shape: Any) -> Tensor:
        """Reshape; one size may be -1."""
        return wrap_nested(op.reshape(self._expr, shape), "reshape")

    def permute_dims(self, *axes: int) -> Tensor:
        """Permutation of dimensions."""
        return wrap_nested(op.permute_dims(self._expr, axes), "permute_dims")

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Repeat each element, along an axis or flattened."""
        return wrap_nested(op.repeat(self._expr, repeats, axis), "repeat")


def _of_known_shape(expr: Expr) -> Expr:
    """Check that an expression is a tensor of known shape, and return it.

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
            raise ValueError(f"size {size}: expected a nonnegative number")
        return prim.IntImm("int64", size)
    if not isinstance(size, PrimExpr):
        raise TypeError(f"size {size!r}: expected a number, a name or an expression")
    if size.dtype != "int64":
        raise ValueError(
            f"size `{size}`: expected an int64 expression, got {size.dtype}"
        )
    return size


class Parameter(Tensor):
    """A parameter (weight) of a module, with or without data.

    Args:
        shape: numbers, expressions, or names of symbolic sizes.
        dtype: element type; :func:`get_default_dtype` by default.

    Attributes:
        attrs: user-defined attributes.
    """

    def __init__(
        self, shape: Sequence[PrimExprLike | str], dtype: str | None = None
    ) -> None:
        variable = Tensor.placeholder(shape, dtype or get_default_dtype(), "param")
        super().__init__(_expr=variable.as_expr())
        self._data: NDArray | None = None
        self.attrs: dict[str, Any] = {}

    def bind(self, expr: Expr) -> None:
        """Bind it to an expression: a function parameter, or an element of a packed one."""
        self._expr = _of_known_shape(expr)

    @property
    def data(self) -> NDArray | None:
        """Its data, or None if it has none."""
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
            ValueError: it has data already.
        """
        if dtype is None:
            return
        if self._data is not None:
            raise ValueError(
                "parameter has data: expected none when its element type changes. "
                "Convert the array, and set `data` after `to`."
            )
        self._expr = Tensor.placeholder(self.shape, dtype, "param").as_expr()


class Object:
    """An opaque object in the function being built, such as a cache."""

    def __init__(self, *, _expr: Expr, _name: str) -> None:
        if not isinstance(_expr, Var):
            _expr = current_builder().emit(_expr, _name)
        info = _expr.struct_info_or_none()
        if not isinstance(info, ObjectStructInfo):
            raise ValueError(f"object `{_name}`: expected `R.Object`, got {info}")
        self._expr = _expr

    def as_expr(self) -> Expr:
        """The underlying expression."""
        return self._expr


def current_builder() -> BlockBuilder:
    """The builder of the function being built.

    Raises:
        ValueError: no function is being built.
    """
    builder = BlockBuilder.current()
    if builder is None:
        raise ValueError(
            "a network's operators were called outside of a graph: expected a call inside "
            "of `export_tvm`, or of `with BlockBuilder().function(...)`"
        )
    return builder


def wrap_nested(expr: Expr, name: str) -> Any:  # Any: a tensor, or a tuple of such
    """Emit an expression, and wrap the result: a tensor, or a nested tuple of tensors.

    Args:
        expr: the expression.
        name: name of the variable; tuple elements get their index as a suffix.

    Raises:
        TypeError: the result is neither.
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
