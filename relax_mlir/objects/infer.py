"""What is known of the value of an expression, from what is known of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Call,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    Op,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
)
from relax_mlir.objects.operators import infer_operator
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "FunctionLookup",
    "erase_unknown",
    "infer",
    "lowest_common_ancestor",
    "returned_info",
    "sizes_of",
    "substitute_info",
    "variables_in",
]

FunctionLookup = Callable[[GlobalVar], StructInfo | None]


def infer(expr: Expr, names: Symbols, functions: FunctionLookup) -> StructInfo:
    """What is known of the value of ``expr``; needs a current context and location.

    Args:
        names: the variables of the function around it.
        functions: what is known of the functions of the module.

    Raises:
        ValueError: its parts do not fit together.
    """
    known = expr.struct_info_or_none()
    if known is not None:
        return known
    if isinstance(expr, Call):
        return _of_call(expr, names, functions)
    if isinstance(expr, If):
        return lowest_common_ancestor(
            infer(expr.true_branch, names, functions),
            infer(expr.false_branch, names, functions),
        )
    if isinstance(expr, SeqExpr):
        return infer(expr.body, names, functions)
    if isinstance(expr, Tuple):
        return TupleStructInfo([infer(f, names, functions) for f in expr.fields])
    if isinstance(expr, TupleGetItem):
        whole = infer(expr.tuple_value, names, functions)
        is_tuple = isinstance(whole, TupleStructInfo)
        return whole.fields[expr.index] if is_tuple else ObjectStructInfo()
    if isinstance(expr, GlobalVar):
        return functions(expr) or FuncStructInfo.opaque_func()
    return ObjectStructInfo()


def _of_call(call: Call, names: Symbols, functions: FunctionLookup) -> StructInfo:
    if isinstance(call.op, Op):
        for argument in call.args:
            if isinstance(argument, (Call, If, SeqExpr)):
                argument._struct_info = infer(argument, names, functions)
        return infer_operator(call, names)
    if call.sinfo_args:
        many = len(call.sinfo_args) > 1
        return TupleStructInfo(call.sinfo_args) if many else call.sinfo_args[0]
    if isinstance(call.op, ExternFunc):
        return ObjectStructInfo()
    signature = infer(call.op, names, functions)
    if not isinstance(signature, FuncStructInfo):
        raise ValueError(
            f"`{call.op!r}` is called: expected a function, got {signature}"
        )
    if signature.params is None:
        return signature.ret
    arguments = [infer(a, names, functions) for a in call.args]
    return returned_info(signature, arguments)


def returned_info(
    signature: FuncStructInfo, arguments: Sequence[StructInfo]
) -> StructInfo:
    """What a function gives for arguments of which ``arguments`` are known.

    Raises:
        ValueError: their number or kinds are not those of the parameters.
    """
    params = signature.params or ()
    if len(params) != len(arguments):
        raise ValueError(
            f"function takes {len(params)} arguments, got {len(arguments)}"
        )
    values: dict[Var, PrimExpr] = {}
    for param, argument in zip(params, arguments, strict=True):
        _check_passes(param, argument)
        _bind(param, argument, values)
    result = substitute_info(signature.ret, values)
    own = {v for p in params for v in variables_in(p)} - set(values)
    return erase_unknown(result, lambda var: not any(var is o for o in own))


def _check_passes(param: StructInfo, argument: StructInfo) -> None:
    from relax_mlir.objects.base_check import BaseCheckResult, struct_info_base_check

    if struct_info_base_check(param, argument) <= BaseCheckResult.FAIL_L1:
        raise ValueError(f"argument does not fit: expected {param}, got {argument}")


def _bind(param: StructInfo, argument: StructInfo, values: dict[Var, PrimExpr]) -> None:
    """Learn what the variables of a parameter are from an argument."""
    if isinstance(param, TupleStructInfo) and isinstance(argument, TupleStructInfo):
        for mine, theirs in zip(param.fields, argument.fields, strict=False):
            _bind(mine, theirs, values)
        return
    for mine, theirs in zip(sizes_of(param), sizes_of(argument), strict=False):
        if isinstance(mine, Var) and mine not in values:
            values[mine] = theirs


def sizes_of(info: StructInfo) -> tuple[PrimExpr, ...]:
    """The sizes that a shape or a scalar is known to have, in order."""
    if isinstance(info, TensorStructInfo):
        return info.shape.values if isinstance(info.shape, ShapeExpr) else ()
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    if isinstance(info, PrimStructInfo):
        return () if info.value is None else (info.value,)
    return ()


def variables_in(info: StructInfo) -> Iterator[Var]:
    """The variables that the sizes in ``info`` mention."""
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from variables_in(field)
    elif isinstance(info, FuncStructInfo):
        for part in (*(info.params or ()), info.ret):
            yield from variables_in(part)
    for size in sizes_of(info):
        yield from (t for t in prim.post_order(size) if isinstance(t, Var))


def map_sizes(
    info: StructInfo, change: Callable[[PrimExpr], PrimExpr | None]
) -> StructInfo:
    """``info`` with its sizes changed; None makes a whole shape unknown."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([map_sizes(f, change) for f in info.fields])
    if isinstance(info, FuncStructInfo) and info.params is not None:
        params = [map_sizes(p, change) for p in info.params]
        return FuncStructInfo(params, map_sizes(info.ret, change), info.purity)
    sizes = [change(size) for size in sizes_of(info)]
    known = [size for size in sizes if size is not None]
    is_known = len(known) == len(sizes)
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        shape = ShapeExpr(known) if is_known else None
        return info.replace(shape=shape)
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return ShapeStructInfo(known) if is_known else ShapeStructInfo(ndim=info.ndim)
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return PrimStructInfo(info.dtype, known[0] if is_known else None)
    return info


def substitute_info(info: StructInfo, values: Mapping[Var, PrimExpr]) -> StructInfo:
    """``info`` with variables replaced in its sizes."""
    return map_sizes(info, lambda size: prim.substitute(size, values))


def erase_unknown(info: StructInfo, is_known: Callable[[Var], bool]) -> StructInfo:
    """``info`` without the shapes that mention variables that are not known."""

    def keep(size: PrimExpr) -> PrimExpr | None:
        variables = (t for t in prim.post_order(size) if isinstance(t, Var))
        return size if all(map(is_known, variables)) else None

    return map_sizes(info, keep)


def lowest_common_ancestor(a: StructInfo, b: StructInfo) -> StructInfo:
    """The most that holds for both."""
    if a.is_base_of(b):
        return a
    if b.is_base_of(a):
        return b
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        return _common_tensor(a, b)
    if isinstance(a, ShapeStructInfo) and isinstance(b, ShapeStructInfo):
        return ShapeStructInfo(ndim=a.ndim if a.ndim == b.ndim else -1)
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        return _common_tuple(a, b)
    if isinstance(a, PrimStructInfo) and isinstance(b, PrimStructInfo):
        return PrimStructInfo(a.dtype) if a.dtype == b.dtype else ObjectStructInfo()
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        return _common_function(a, b)
    return ObjectStructInfo()


def _common_tensor(a: TensorStructInfo, b: TensorStructInfo) -> StructInfo:
    dtype = a.dtype if a.dtype == b.dtype else "void"
    vdevice = a.vdevice if a.vdevice == b.vdevice else None
    if a.shape is not None and a.shape == b.shape:
        return TensorStructInfo(a.shape, dtype, vdevice)
    return TensorStructInfo(None, dtype, vdevice, a.ndim if a.ndim == b.ndim else -1)


def _common_tuple(a: TupleStructInfo, b: TupleStructInfo) -> StructInfo:
    if len(a.fields) != len(b.fields):
        return ObjectStructInfo()
    pairs = zip(a.fields, b.fields, strict=True)
    return TupleStructInfo([lowest_common_ancestor(x, y) for x, y in pairs])


def _common_function(a: FuncStructInfo, b: FuncStructInfo) -> StructInfo:
    ret = lowest_common_ancestor(a.ret, b.ret)
    purity = a.purity and b.purity
    if a.params is None or b.params is None or len(a.params) != len(b.params):
        return FuncStructInfo.opaque_func(ret=ret, purity=purity)
    pairs = zip(a.params, b.params, strict=True)
    params = [lowest_common_ancestor(x, y) for x, y in pairs]
    return FuncStructInfo(params, ret, purity)
