"""Struct-info inference for expressions, substitution and unification of sizes."""

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
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.operators import infer_operator
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = [
    "FunctionLookup",
    "call_result_info",
    "erase_unknown_shapes",
    "infer_struct_info",
    "lowest_common_ancestor",
    "size_vars_in",
    "struct_info_sizes",
    "substitute_info",
]

FunctionLookup = Callable[[GlobalVar], StructInfo | None]


def infer_struct_info(
    expr: Expr, symbols: Symbols, functions: FunctionLookup
) -> StructInfo:
    """The struct info of an expression; needs a current context and location.

    Args:
        symbols: the symbol table of the enclosing function.
        functions: gives the struct info of a function of the module.

    Raises:
        ValueError: the expression is ill-typed.
    """
    known = expr.struct_info_or_none()
    if known is not None:
        return known
    if isinstance(expr, Call):
        return _infer_call(expr, symbols, functions)
    if isinstance(expr, If):
        return lowest_common_ancestor(
            infer_struct_info(expr.true_branch, symbols, functions),
            infer_struct_info(expr.false_branch, symbols, functions),
        )
    if isinstance(expr, SeqExpr):
        return infer_struct_info(expr.body, symbols, functions)
    if isinstance(expr, Tuple):
        return TupleStructInfo(
            [infer_struct_info(f, symbols, functions) for f in expr.fields]
        )
    if isinstance(expr, TupleGetItem):
        whole = infer_struct_info(expr.tuple_value, symbols, functions)
        is_tuple = isinstance(whole, TupleStructInfo)
        return whole.fields[expr.index] if is_tuple else ObjectStructInfo()
    if isinstance(expr, GlobalVar):
        return functions(expr) or FuncStructInfo.opaque_func()
    return ObjectStructInfo()


def _infer_call(call: Call, symbols: Symbols, functions: FunctionLookup) -> StructInfo:
    if isinstance(call.op, Op):
        for argument in call.args:
            if isinstance(argument, (Call, If, SeqExpr)):
                argument._struct_info = infer_struct_info(argument, symbols, functions)
        return infer_operator(call, symbols)
    if call.sinfo_args:
        many = len(call.sinfo_args) > 1
        return TupleStructInfo(call.sinfo_args) if many else call.sinfo_args[0]
    if isinstance(call.op, ExternFunc):
        return ObjectStructInfo()
    signature = infer_struct_info(call.op, symbols, functions)
    if not isinstance(signature, FuncStructInfo):
        raise ValueError(
            f"`{call.op!r}` is called: expected a function, got {signature}"
        )
    if signature.params is None:
        return signature.ret
    arguments = [infer_struct_info(a, symbols, functions) for a in call.args]
    return call_result_info(signature, arguments)


def call_result_info(
    signature: FuncStructInfo, arguments: Sequence[StructInfo]
) -> StructInfo:
    """The struct info of a call's result: the signature instantiated for its arguments.

    Raises:
        ValueError: the arguments do not match the parameters.
    """
    params = signature.params or ()
    if len(params) != len(arguments):
        raise ValueError(
            f"function takes {len(params)} arguments, got {len(arguments)}"
        )
    values: dict[Var, PrimExpr] = {}
    for param, argument in zip(params, arguments, strict=True):
        _check_argument(param, argument)
        _bind(param, argument, values)
    result = substitute_info(signature.ret, values)
    own = {v for p in params for v in size_vars_in(p)} - set(values)
    return erase_unknown_shapes(result, lambda var: not any(var is o for o in own))


def _check_argument(param: StructInfo, argument: StructInfo) -> None:
    from relax_mlir.objects.compare.struct_info_base_check import (
        BaseCheckResult,
        struct_info_base_check,
    )

    if struct_info_base_check(param, argument) <= BaseCheckResult.FAIL_L1:
        raise ValueError(f"argument does not fit: expected {param}, got {argument}")


def _bind(param: StructInfo, argument: StructInfo, values: dict[Var, PrimExpr]) -> None:
    """Binds a parameter's size variables to an argument's sizes."""
    if isinstance(param, TupleStructInfo) and isinstance(argument, TupleStructInfo):
        for mine, theirs in zip(param.fields, argument.fields, strict=False):
            _bind(mine, theirs, values)
        return
    for mine, theirs in zip(
        struct_info_sizes(param), struct_info_sizes(argument), strict=False
    ):
        if isinstance(mine, Var) and mine not in values:
            values[mine] = theirs


def struct_info_sizes(info: StructInfo) -> tuple[PrimExpr, ...]:
    """The known sizes of a tensor, shape or scalar, in order."""
    if isinstance(info, TensorStructInfo):
        return info.shape.values if isinstance(info.shape, ShapeExpr) else ()
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    if isinstance(info, PrimStructInfo):
        return () if info.value is None else (info.value,)
    return ()


def size_vars_in(info: StructInfo) -> Iterator[Var]:
    """The size variables of struct info."""
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from size_vars_in(field)
    elif isinstance(info, FuncStructInfo):
        for part in (*(info.params or ()), info.ret):
            yield from size_vars_in(part)
    for size in struct_info_sizes(info):
        yield from (t for t in prim.post_order(size) if isinstance(t, Var))


def map_struct_info_sizes(
    info: StructInfo, change: Callable[[PrimExpr], PrimExpr | None]
) -> StructInfo:
    """Struct info with its sizes mapped; None makes a whole shape unknown."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([map_struct_info_sizes(f, change) for f in info.fields])
    if isinstance(info, FuncStructInfo) and info.params is not None:
        params = [map_struct_info_sizes(p, change) for p in info.params]
        return FuncStructInfo(
            params, map_struct_info_sizes(info.ret, change), info.purity
        )
    sizes = [change(size) for size in struct_info_sizes(info)]
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
    """Struct info with variables substituted in its sizes."""
    return map_struct_info_sizes(info, lambda size: prim.substitute(size, values))


def erase_unknown_shapes(
    info: StructInfo, is_known: Callable[[Var], bool]
) -> StructInfo:
    """Struct info without the shapes that have unknown variables."""

    def keep(size: PrimExpr) -> PrimExpr | None:
        variables = (t for t in prim.post_order(size) if isinstance(t, Var))
        return size if all(map(is_known, variables)) else None

    return map_struct_info_sizes(info, keep)


def lowest_common_ancestor(a: StructInfo, b: StructInfo) -> StructInfo:
    """The most precise struct info that is a base of both."""
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
