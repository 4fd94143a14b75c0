"""What struct info says, and how one relates to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import IRError
from relax_mlir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.base_check import BaseCheckResult, struct_info_base_check
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Var
from relax_mlir.objects.infer import (
    infer,
    lowest_common_ancestor,
    returned_info,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.block_builder import BlockBuilder

__all__ = [
    "BaseCheckResult",
    "derive_call_ret_struct_info",
    "erase_to_well_defined",
    "get_static_type",
    "struct_info_base_check",
    "struct_info_lca",
]


def struct_info_lca(lhs: StructInfo, rhs: StructInfo) -> StructInfo:
    """The most that holds for both."""
    return lowest_common_ancestor(lhs, rhs)


def get_static_type(sinfo: StructInfo) -> StructInfo:
    """Struct info without sizes: kinds, element types and ranks."""
    if isinstance(sinfo, TensorStructInfo):
        return TensorStructInfo(dtype=sinfo.dtype, ndim=sinfo.ndim)
    if isinstance(sinfo, ShapeStructInfo):
        return ShapeStructInfo(ndim=sinfo.ndim)
    if isinstance(sinfo, PrimStructInfo):
        return PrimStructInfo(sinfo.dtype)
    if isinstance(sinfo, TupleStructInfo):
        return TupleStructInfo([get_static_type(f) for f in sinfo.fields])
    if isinstance(sinfo, FuncStructInfo):
        ret = get_static_type(sinfo.ret)
        if sinfo.params is None:
            return FuncStructInfo.opaque_func(ret=ret, purity=sinfo.purity)
        params = [get_static_type(p) for p in sinfo.params]
        return FuncStructInfo(params, ret, sinfo.purity)
    return sinfo


def erase_to_well_defined(
    sinfo: StructInfo,
    shape_var_map: Mapping[prim.Var, Any] | None = None,
    var_map: Mapping[Var, Expr] | None = None,
) -> StructInfo:
    """Struct info that mentions only what is defined.

    Args:
        sinfo: the struct info.
        shape_var_map: the variables of sizes that are defined, and what they become.
        var_map: the variables of Relax that are defined, and what they become.
    """
    sizes = {var: prim.convert(size) for var, size in (shape_var_map or {}).items()}
    return _erased(sinfo, sizes, var_map or {})


def _erased(
    info: StructInfo, sizes: Mapping[prim.Var, PrimExpr], variables: Mapping[Var, Expr]
) -> StructInfo:
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_erased(f, sizes, variables) for f in info.fields])
    if isinstance(info, TensorStructInfo):
        shape = info.shape
        if isinstance(shape, ShapeExpr):
            values = _defined(shape.values, sizes)
            shape = None if values is None else ShapeExpr(values)
        elif shape is not None:
            shape = variables.get(shape)
        return info.replace(shape=shape)
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        values = _defined(info.values, sizes)
        return ShapeStructInfo(values, info.ndim if values is None else -1)
    if isinstance(info, PrimStructInfo) and info.value is not None:
        values = _defined([info.value], sizes)
        return PrimStructInfo(info.dtype, values[0] if values else None)
    return info


def _defined(
    values: Sequence[PrimExpr], sizes: Mapping[prim.Var, PrimExpr]
) -> list[PrimExpr] | None:
    """Sizes with variables replaced, or None where one is not defined."""
    for value in values:
        for term in prim.post_order(value):
            if isinstance(term, prim.Var) and not any(term is var for var in sizes):
                return None
    return [prim.substitute(value, sizes) for value in values]


def derive_call_ret_struct_info(
    func_sinfo: FuncStructInfo, call: Call, ctx: BlockBuilder | None = None
) -> StructInfo:
    """What a function gives for the arguments of a call, whatever the call's ``op`` is.

    Raises:
        IRError: the arguments are not those that the function takes.
    """
    if func_sinfo.derive_func is not None:
        return func_sinfo.derive_func(call, ctx)
    if func_sinfo.params is None:
        return func_sinfo.ret
    module = IRModule.shared()
    with module.context, ir.Location.unknown():
        infos = [infer(a, Symbols(), module.signature_of) for a in call.args]
    try:
        return returned_info(func_sinfo, infos)
    except ValueError as error:
        raise IRError(f"`{call!r}`: {error}") from error
