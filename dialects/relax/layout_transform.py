"""Elements laid out in another way."""

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
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim, Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index

__all__ = ["LayoutTransformOp"]

T = TypeVar("T")


class LayoutTransformOp(Relax.Operation, name="layout_transform"):
    """Every element at the place that a map gives for its own.

    Attributes:
        index_map: from places in x to places in y, no two to one; in Python as text,
            ``(a, b) -> (a, b floordiv 4, b mod 4)``.
        pad_value: what stands where the map leads nowhere; None for 0.
    Shapes:
        x: any; y: as large along every axis as the map reaches; along one that is a
            remainder, as its divisor.
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
                f"expected a map of {x.rank} places and no symbols, got `{map_}`"
            )
        shape = _reached(map_, tensors.shape_of(x))
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray, index_map: AffineMapAttr | str, pad_value: float | None = None
    ) -> np.ndarray:
        if isinstance(index_map, str):
            with ir.Context():
                return LayoutTransformOp.reference(x, _map(index_map), pad_value)
        map_ = index_map.value
        shape = [shapes.evaluate(dim, {}) for dim in _reached(map_, x.shape)]
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


def _applied(map_: AffineMap, places: list[T]) -> list[T]:
    """Where an element goes."""
    return [_value(expr, places) for expr in map_.results]


def _value(expr: AffineExpr, places: list[Any]) -> Any:  # Any: arrays or indices
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if isinstance(expr, AffineDimExpr):
        return places[expr.position]
    assert isinstance(expr, AffineBinaryExpr)  # as `_largest` found
    lhs, rhs = (_value(part, places) for part in (expr.lhs, expr.rhs))
    if isinstance(expr, AffineAddExpr):
        return lhs + rhs
    if isinstance(expr, AffineMulExpr):
        return lhs * rhs
    if isinstance(expr, AffineModExpr):
        return lhs % rhs
    return lhs // rhs


def _reached(map_: AffineMap, shape: Sequence[Dim]) -> Shape:
    """One more than the largest place along every axis.

    A remainder alone is an axis as long as its divisor, also if there are fewer places.
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
    """The largest value of an expression that no place makes smaller.

    Raises:
        ValueError: it is none of those, or has no bound that is easily told.
    """
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if isinstance(expr, AffineDimExpr):
        return shape[expr.position] - 1
    if isinstance(expr, AffineCeilDivExpr) or not isinstance(expr, AffineBinaryExpr):
        raise ValueError(f"expected sums, products, floordiv and mod, got `{expr}`")
    lhs, rhs = (_largest(part, shape) for part in (expr.lhs, expr.rhs))
    if isinstance(rhs, int) and isinstance(expr.rhs, AffineConstantExpr) and rhs < 0:
        raise ValueError(f"expected places that are never subtracted, got `{expr}`")
    if isinstance(expr, AffineAddExpr):
        return lhs + rhs
    if isinstance(expr, AffineMulExpr):
        return lhs * rhs
    if isinstance(expr, AffineModExpr):
        return lhs if shapes.is_known_le(lhs, rhs - 1) else rhs - 1
    return shapes.floordiv(lhs, rhs)
