"""Operations on struct info: common ancestor, static type, erasure, call results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import IRError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.infer.struct_info import (
    call_result_info,
    infer_struct_info,
    lowest_common_ancestor,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = [
    "derive_call_ret_struct_info",
    "erase_to_well_defined",
    "get_static_type",
    "struct_info_lca",
]


def struct_info_lca(lhs: StructInfo, rhs: StructInfo) -> StructInfo:
    """Lowest common ancestor: the most specific struct info that describes both."""
    return lowest_common_ancestor(lhs, rhs)


def get_static_type(sinfo: StructInfo) -> StructInfo:
    """Erase sizes: the static type has kind, element type and rank only."""
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
    """Erase shapes that use undefined variables, and substitute the defined ones.

    Args:
        sinfo: the struct info.
        shape_var_map: substitution of the defined symbolic variables.
        var_map: substitution of the defined Relax variables.
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
            values = _substituted(shape.values, sizes)
            shape = None if values is None else ShapeExpr(values)
        elif shape is not None:
            shape = variables.get(shape)
        return info.replace(shape=shape)
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        values = _substituted(info.values, sizes)
        return ShapeStructInfo(values, info.ndim if values is None else -1)
    if isinstance(info, PrimStructInfo) and info.value is not None:
        values = _substituted([info.value], sizes)
        return PrimStructInfo(info.dtype, values[0] if values else None)
    return info


def _substituted(
    values: Sequence[PrimExpr], sizes: Mapping[prim.Var, PrimExpr]
) -> list[PrimExpr] | None:
    """Substitutes variables in sizes; None if a variable is undefined."""
    for value in values:
        for node in prim.post_order(value):
            if isinstance(node, prim.Var) and not any(node is var for var in sizes):
                return None
    return [prim.substitute(value, sizes) for value in values]


def derive_call_ret_struct_info(
    func_sinfo: FuncStructInfo, call: Call, ctx: BlockBuilder | None = None
) -> StructInfo:
    """Derive the result of a function of ``func_sinfo`` for a call's arguments.

    The ``op`` of the call is ignored.

    Raises:
        IRError: the arguments do not fit the parameters.
    """
    if func_sinfo.derive_func is not None:
        return func_sinfo.derive_func(call, ctx)
    if func_sinfo.params is None:
        return func_sinfo.ret
    module = IRModule.shared()
    with module.context, ir.Location.unknown():
        infos = [
            infer_struct_info(a, Symbols(), module.signature_of) for a in call.args
        ]
    try:
        return call_result_info(func_sinfo, infos)
    except ValueError as error:
        raise IRError(f"`{call!r}`: {error}") from error
