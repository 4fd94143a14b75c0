"""Patterns with constraints on struct info, type, shape or attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.errors import MissingElementError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr import Call, Expr, ShapeExpr
from relax_mlir.objects.expr.struct_info import StructInfo, TensorStructInfo
from relax_mlir.objects.function import Function
from relax_mlir.tvm.relax.analysis.types import get_static_type
from relax_mlir.tvm.relax.dpl.matcher import PatternMatcher, is_provably_equal
from relax_mlir.tvm.relax.dpl.structure import DFPattern

__all__ = [
    "AttrPattern",
    "DataTypePattern",
    "PrimArrPattern",
    "ShapePattern",
    "StructInfoPattern",
    "TypePattern",
]


class StructInfoPattern(DFPattern):
    """Constrains the struct info of a match; its symbolic variables match any size."""

    def __init__(self, pattern: DFPattern, struct_info: Any) -> None:
        self.pattern = pattern
        proxy = getattr(struct_info, "as_struct_info", None)
        info = struct_info if proxy is None else proxy()
        where = "StructInfoPattern: `struct_info`"
        self.struct_info = instance_of(info, StructInfo, where, "a struct info")

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not matcher.visit(self.pattern, expr):
            return False
        info = expr.struct_info_or_none()
        return info is not None and matcher.visit_struct_info(self.struct_info, info)


class TypePattern(DFPattern):
    """Constrains the static type of a match: kind, element type and rank."""

    def __init__(self, pattern: DFPattern, ttype: Any) -> None:
        self.pattern = pattern
        self.type = ttype

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        info = expr.struct_info_or_none()
        if info is None or not self._fits(get_static_type(info)):
            return False
        return matcher.visit(self.pattern, expr)

    def _fits(self, info: StructInfo) -> bool:
        if isinstance(self.type, StructInfo):
            return get_static_type(self.type) == info
        static = (getattr(self.type, "ndim", None), getattr(self.type, "dtype", None))
        return isinstance(info, TensorStructInfo) and static == (info.ndim, info.dtype)


class DataTypePattern(DFPattern):
    """Constrains the element type of a matched tensor."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern = pattern
        self.dtype = str(dtype)

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        dtype = getattr(expr.struct_info_or_none(), "dtype", None)
        return dtype == self.dtype and matcher.visit(self.pattern, expr)


class ShapePattern(DFPattern):
    """Constrains the shape of a matched tensor."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        if not isinstance(shape, (list, tuple, ShapeExpr)):
            raise ValueError(
                f"`has_shape`: expected a list of sizes, got {short_repr(shape)}"
            )
        self.pattern = pattern
        self.shape = ShapeExpr(tuple(shape))

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        shape = getattr(expr.struct_info_or_none(), "shape", None)
        return _same_shape(self.shape, shape) and matcher.visit(self.pattern, expr)


class PrimArrPattern(DFPattern):
    """Matches shape values."""

    def __init__(self, shape: Sequence[Any]) -> None:
        self.fields = ShapeExpr(tuple(shape)).values

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return _same_shape(self.fields, expr)

    def __getitem__(self, index: int) -> prim.PrimExpr:
        if index >= len(self.fields):
            raise MissingElementError(
                f"no dimension {index}: the pattern has {len(self.fields)}"
            )
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


def _same_shape(expected: Sequence[prim.PrimExpr] | ShapeExpr, shape: object) -> bool:
    if not isinstance(shape, ShapeExpr) or len(shape) != len(expected):
        return False
    return all(map(is_provably_equal, expected, shape))


class AttrPattern(DFPattern):
    """Constrains attributes of a matched call or function."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern = pattern
        self.attrs = dict(attrs)

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not matcher.visit(self.pattern, expr):
            return False
        if not isinstance(expr, (Call, Function)):
            return False
        actual = expr.attrs
        return all(
            name in actual and _plain(value) == _plain(actual[name])
            for name, value in self.attrs.items()
        )


def _plain(value: Any) -> Any:
    """Converts an attribute to plain Python values."""
    if isinstance(value, (list, tuple, ShapeExpr)):
        return tuple(map(_plain, value))
    if isinstance(value, (prim.IntImm, prim.FloatImm, prim.StringImm)):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value
