"""Layout transformation by an index map."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from mlir import ir
from mlir.ir import (
    AffineAddExpr,
    AffineBinaryExpr,
    AffineCeilDivExpr,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineMapAttr,
    AffineModExpr,
    AffineMulExpr,
    FloatAttr,
    RankedTensorType,
)

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim, Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index

__all__ = ["LayoutTransformOp"]

T = TypeVar("T")


class LayoutTransformOp(Relax.Operation, name="layout_transform"):
    """Moves every element to the index that an injective affine map assigns to its own.

    Attributes:
        index_map: an injective map from indices of x to indices of y; in Python as text,
            ``(a, b) -> (a, b floordiv 4, b mod 4)``.
        pad_value: the value of elements that are not in the image of the map; None for 0.
    Shapes:
        x: any; y: along every axis, the maximum of the map's result plus 1; the divisor if
            the result is a ``mod``.
    Source: TVM relax.op.layout_transform.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    index_map: AffineMapAttr
    pad_value: FloatAttr | None

    cases = (
        Case((2, 8), index_map="(a, b) -> (a, b floordiv 4, b mod 4)"),
        Case((2, 7), index_map="(a, b) -> (a, b floordiv 4, b mod 4)", pad_value=1.5),
        Case((2, 7), index_map="(a, b) -> (b mod 4, a, b floordiv 4)"),
        Case((2, 3), index_map="(a, b) -> (a, b mod 5)"),
        Case((2, 5), index_map="(a, b) -> (a * 5 + b)"),
        Case((3, 4, "int64"), index_map="(a, b) -> (b, a)", low=-9, high=9),
        Case((1, 6, 2, 3), index_map="(n, c, h, w) -> (n, h, w, c)"),
    )

    @classmethod
    def program_name(cls) -> str:
        return "te_layout_transform"

    @classmethod
    def _make_attributes(cls, attrs: dict[str, Any]) -> dict[str, ir.Attribute]:
        return super()._make_attributes(
            {**attrs, "index_map": _map(attrs["index_map"])}
        )

    def python_attrs(self) -> dict[str, Any]:
        text = str(AffineMapAttr(self.attributes["index_map"]).value)
        return {**super().python_attrs(), "index_map": text}

    @staticmethod
    def infer(
        x: RankedTensorType,
        index_map: AffineMapAttr | str,
        pad_value: float | None = None,
    ) -> RankedTensorType:
        map_ = _map(index_map).value
        if map_.n_dims != x.rank or map_.n_symbols:
            raise ValueError(
                f"expected a map of {x.rank} dimensions and no symbols, got `{map_}`"
            )
        shape = _result_shape(map_, tensors.shape_of(x))
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray, index_map: AffineMapAttr | str, pad_value: float | None = None
    ) -> np.ndarray:
        if isinstance(index_map, str):
            with ir.Context():
                return LayoutTransformOp.reference(x, _map(index_map), pad_value)
        map_ = index_map.value
        shape = [shapes.evaluate(dim, {}) for dim in _result_shape(map_, x.shape)]
        y = np.full(shape, pad_value or 0, x.dtype)
        y[tuple(_applied(map_, list(np.indices(x.shape))))] = x
        return y

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        map_ = _map(attrs["index_map"]).value
        fill = attrs["pad_value"] or 0
        if shapes.is_known_equal(shapes.product(shape), shapes.product(x.shape)):
            y = b.alloc(shape, dtype)
        else:
            y = b.compute(shape, lambda *_: b.constant(fill, dtype), dtype, "fill")

        def body(*axes: Index) -> None:
            y.store(x[axes], _applied(map_, list(axes)))

        b.block("layout_transform", x.shape, "S" * x.rank, body)
        return y


def _map(value: "AffineMapAttr | str") -> AffineMapAttr:
    if isinstance(value, str):
        return AffineMapAttr(ir.Attribute.parse(f"affine_map<{value}>"))
    return value


def _applied(map_: AffineMap, indices: list[T]) -> list[T]:
    """Applies a map to indices."""
    return [_value(expr, indices) for expr in map_.results]


def _value(expr: AffineExpr, indices: list[Any]) -> Any:  # Any: arrays or indices
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if isinstance(expr, AffineDimExpr):
        return indices[expr.position]
    assert isinstance(expr, AffineBinaryExpr)  # checked by `_largest`
    lhs, rhs = (_value(operand, indices) for operand in (expr.lhs, expr.rhs))
    if isinstance(expr, AffineAddExpr):
        return lhs + rhs
    if isinstance(expr, AffineMulExpr):
        return lhs * rhs
    if isinstance(expr, AffineModExpr):
        return lhs % rhs
    return lhs // rhs


def _result_shape(map_: AffineMap, shape: Sequence[Dim]) -> Shape:
    """The shape of the result: one more than the largest index along every axis.

    An axis that is a ``mod`` has the size of the divisor, even if the map reaches less.
    """
    return tuple(_size(expr, shape) for expr in map_.results)


def _size(expr: AffineExpr, shape: Sequence[Dim]) -> Dim:
    largest = _largest(expr, shape)
    if not isinstance(expr, AffineModExpr):
        return largest + 1
    divisor = AffineBinaryExpr(expr).rhs
    is_number = isinstance(divisor, AffineConstantExpr)
    return divisor.value if is_number else largest + 1


def _largest(expr: AffineExpr, shape: Sequence[Dim]) -> Dim:
    """The largest value of an expression that is monotone in all indices.

    Raises:
        ValueError: the expression is not known to be monotone, or is unsupported.
    """
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if isinstance(expr, AffineDimExpr):
        return shape[expr.position] - 1
    if isinstance(expr, AffineCeilDivExpr) or not isinstance(expr, AffineBinaryExpr):
        raise ValueError(f"expected sums, products, floordiv and mod, got `{expr}`")
    lhs, rhs = (_largest(operand, shape) for operand in (expr.lhs, expr.rhs))
    if isinstance(rhs, int) and isinstance(expr.rhs, AffineConstantExpr) and rhs < 0:
        raise ValueError(f"expected no negative coefficients, got `{expr}`")
    if isinstance(expr, AffineAddExpr):
        return lhs + rhs
    if isinstance(expr, AffineMulExpr):
        return lhs * rhs
    if isinstance(expr, AffineModExpr):
        return lhs if shapes.is_known_le(lhs, rhs - 1) else rhs - 1
    return shapes.floordiv(lhs, rhs)
