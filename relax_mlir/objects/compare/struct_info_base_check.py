"""Subtype check of struct info: whether one is a base of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.expr import ShapeExpr
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.infer.struct_info import substitute_info
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = ["BaseCheckResult", "struct_info_base_check"]


class BaseCheckResult(IntEnum):
    """Result of a subtype check, from certainly false to certainly true."""

    FAIL_L0 = 0  # no value has both
    FAIL_L1 = 1  # undecided: too little is known statically
    FAIL_L2 = 2  # undecided: depends on symbolic sizes
    PASS = 3


_R = BaseCheckResult


def struct_info_base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """Whether ``base`` is a base of ``derived``."""
    if isinstance(base, ObjectStructInfo):
        return _R.PASS
    if isinstance(derived, ObjectStructInfo):
        return _R.FAIL_L1
    check = _CHECKS.get(type(base))
    if check is None or type(base) is not type(derived):
        return _R.FAIL_L0
    return check(base, derived)


def _check_prim(base: PrimStructInfo, derived: PrimStructInfo) -> BaseCheckResult:
    if base.dtype != derived.dtype:
        return _R.FAIL_L0
    if base.value is None:
        return _R.PASS
    if derived.value is None:
        return _R.FAIL_L2
    return _check_sizes([base.value], [derived.value])


def _check_shape(base: ShapeStructInfo, derived: ShapeStructInfo) -> BaseCheckResult:
    if base.ndim != -1 and base.ndim != derived.ndim:
        return _R.FAIL_L1 if derived.ndim == -1 else _R.FAIL_L0
    if base.values is None:
        return _R.PASS
    if derived.values is None:
        return _R.FAIL_L2
    return _check_sizes(base.values, derived.values)


def _check_tensor(base: TensorStructInfo, derived: TensorStructInfo) -> BaseCheckResult:
    if base.dtype not in ("void", derived.dtype):
        return _R.FAIL_L1 if derived.dtype == "void" else _R.FAIL_L0
    if base.ndim not in (-1, derived.ndim):
        return _R.FAIL_L1 if derived.ndim == -1 else _R.FAIL_L0
    if base.vdevice is not None and base.vdevice != derived.vdevice:
        return _R.FAIL_L1 if derived.vdevice is None else _R.FAIL_L0
    if base.shape is None or base.shape is derived.shape:
        return _R.PASS
    known = isinstance(base.shape, ShapeExpr) and isinstance(derived.shape, ShapeExpr)
    return _check_sizes(base.shape, derived.shape) if known else _R.FAIL_L2


def _check_sizes(
    base: Iterable[PrimExpr], derived: Iterable[PrimExpr]
) -> BaseCheckResult:
    pairs = zip(base, derived, strict=True)
    return min((_check_size(a, b) for a, b in pairs), default=_R.PASS)


def _check_size(base: PrimExpr, derived: PrimExpr) -> BaseCheckResult:
    """Compares two sizes; those with a nonzero constant difference are never equal."""
    if prim.structurally_equal(base, derived):
        return _R.PASS
    symbols = Symbols()
    try:
        difference = symbols.dim(base) - symbols.dim(derived)
    except ValueError:
        return _R.FAIL_L2
    if isinstance(difference, int):
        return _R.PASS if difference == 0 else _R.FAIL_L0
    return _R.FAIL_L2


def _check_tuple(base: TupleStructInfo, derived: TupleStructInfo) -> BaseCheckResult:
    if len(base.fields) != len(derived.fields):
        return _R.FAIL_L0
    pairs = zip(base.fields, derived.fields, strict=True)
    return min((struct_info_base_check(a, b) for a, b in pairs), default=_R.PASS)


def _check_function(base: FuncStructInfo, derived: FuncStructInfo) -> BaseCheckResult:
    if base.purity and not derived.purity:
        return _R.FAIL_L0
    if base.params is None:
        return struct_info_base_check(base.ret, derived.ret)
    if derived.params is None:
        return _R.FAIL_L2
    if len(base.params) != len(derived.params):
        return _R.FAIL_L0
    renamed = _with_symbols_of(derived, base)
    pairs = zip(base.params, renamed.params or (), strict=True)
    results = [struct_info_base_check(a, b) for a, b in pairs]
    return min([*results, struct_info_base_check(base.ret, renamed.ret)])


def _with_symbols_of(info: FuncStructInfo, other: FuncStructInfo) -> FuncStructInfo:
    """``info`` with its parameters' size variables renamed to those of ``other``."""
    values: dict[prim.Var, PrimExpr] = {}
    for mine, theirs in zip(info.params or (), other.params or (), strict=True):
        for a, b in zip(_sizes_in(mine), _sizes_in(theirs), strict=False):
            if isinstance(a, prim.Var) and isinstance(b, prim.Var):
                values.setdefault(a, b)
    changed = substitute_info(info, values)
    assert isinstance(changed, FuncStructInfo)
    return changed


def _sizes_in(info: StructInfo) -> list[PrimExpr]:
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        return list(info.shape)
    if isinstance(info, ShapeStructInfo):
        return list(info.values or ())
    if isinstance(info, PrimStructInfo):
        return [] if info.value is None else [info.value]
    if isinstance(info, TupleStructInfo):
        return [size for field in info.fields for size in _sizes_in(field)]
    return []


_CHECKS: Mapping[type, Any] = {
    PrimStructInfo: _check_prim,
    ShapeStructInfo: _check_shape,
    TensorStructInfo: _check_tensor,
    TupleStructInfo: _check_tuple,
    FuncStructInfo: _check_function,
}
