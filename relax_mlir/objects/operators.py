"""Relax operators: their operation classes, registered attributes and inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_origin

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.relax.core import RelaxOperation, relax_ops
from relax_mlir.dialects.relax.graph import OPERATOR_EFFECTS
from relax_mlir.errors import (
    OperatorError,
    UnknownOperatorError,
    near_misses,
    short_repr,
)
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    Op,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    convert,
)
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.infer.partial import PartialInference
from relax_mlir.objects.infer.storage import infer_storage
from relax_mlir.objects.prim import intrinsics as functions
from relax_mlir.objects.prim.intrinsic_names import INTRINSIC_NAMES
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = [
    "STRUCTURAL",
    "argument_expr",
    "argument_value",
    "builtin_attr",
    "get_op",
    "infer_operator",
    "normal_form_of",
    "operation_class",
    "operator_names",
    "optional_operands",
    "register_op_attr",
    "static_arguments",
    "typed_number",
]

# Operators without an operation class, which reader and writer handle themselves.
STRUCTURAL = frozenset(OPERATOR_EFFECTS)


@cache
def _classes() -> Mapping[str, type[RelaxOperation]]:
    return {
        f"relax.{op.script_name()}": op
        for op in relax_ops()
        if (
            op.infer is not RelaxOperation.infer
            and op.SHORT_NAME not in ("tuple_get_item", "shape_to_tensor")
        )
        or op.SHORT_NAME == "shape_to_tensor"
    }


def operation_class(name: str) -> type[RelaxOperation] | None:
    """The operation class of an operator, or None."""
    return _classes().get(name)


def operator_names() -> Iterator[str]:
    """The names of all operators, sorted."""
    yield from sorted({*_classes(), *STRUCTURAL})


_INFER = ("FInferStructInfo", "FInferType")  # the older and the newer name
_REGISTERED = (*_INFER, "FLegalize", "FPurity")


def register_op_attr(
    op_name: str, attr_key: str, value: Any = None, level: int = 10
) -> Any:  # Any: the type depends on the attribute
    """Registers an attribute of an operator, known or not; usable as a decorator.

    Args:
        op_name: the operator name, such as ``relax.add``.
        attr_key: ``FLegalize`` (a function from builder and call to the replacement),
            ``FInferStructInfo`` (from call and context to struct info), ``FPurity`` (whether
            calls are free of side effects), ``FNormalize`` (from builder and call to the call
            in normal form), or any other name.
        value: its value.
        level: ignored; the last registration wins.
    """

    def register(value: Any) -> Any:
        Op.of(op_name).set_attr(attr_key, value, level)
        return value

    return register if value is None else register(value)


def _registered_inference(op: Op) -> Callable[..., StructInfo] | None:
    return next((op.get_attr(name) for name in _INFER if op.has_attr(name)), None)


def normal_form_of(op: Expr) -> Callable[..., Expr] | None:
    """The normalization function of an operator, from builder and call; or None.

    That is a registered ``FNormalize``; calls of PrimFuncs have one by default, which lists
    their arguments in place.
    """
    if not isinstance(op, Op):
        return None
    if op.has_attr("FNormalize"):
        return op.get_attr("FNormalize")
    return _with_listed_arguments if op.name in _PROGRAM_CALLS else None


_PROGRAM_CALLS = frozenset(
    f"relax.{name}" for name in ("call_tir", "call_tir_inplace", "call_tir_with_grad")
)


def _with_listed_arguments(builder: Any, call: Call) -> Call:
    """A call of a PrimFunc with its argument tuple in place of a variable.

    Args:
        builder: resolves variables to their bound values.
        call: the call.
    """
    callee, given, *sizes = call.args
    listed = given
    while isinstance(listed, Var):
        bound = builder.lookup_binding(listed)
        if not isinstance(bound, (Var, Tuple)):
            break
        listed = bound
    if isinstance(given, Var) and isinstance(listed, Var):
        info = given.struct_info_or_none()
        if isinstance(info, TupleStructInfo):
            listed = Tuple([TupleGetItem(given, i) for i in range(len(info.fields))])
    if listed is given:
        return call
    return Call(call.op, [callee, listed, *sizes], call.attrs, call.sinfo_args)


def builtin_attr(op: Op, name: str) -> Any:
    """A built-in attribute of an operator: its struct-info inference, or None."""
    if name not in _INFER or operation_class(op.name) is None:
        return None

    def infer_result(call: Call, context: Any = None) -> StructInfo:
        symbols = context if isinstance(context, Symbols) else Symbols()
        return _infer_own(Call(op, call.args, call.attrs, call.sinfo_args), symbols)

    return infer_result


def get_op(name: str) -> Op:
    """The operator of this name.

    Raises:
        AttributeError: it does not exist.
    """
    is_known = name in _classes() or name in STRUCTURAL or _is_intrinsic(name)
    if not is_known and not any(map(Op.of(name).has_attr, _REGISTERED)):
        raise UnknownOperatorError(
            f"operator `{name}` is not registered.{near_misses(name, operator_names())}"
        )
    return Op.of(name)


def _is_intrinsic(name: str) -> bool:
    """Whether an operator is a TIR intrinsic."""
    level, _, function = name.partition(".")
    if level not in ("tir", "tirx"):
        return False
    return function in INTRINSIC_NAMES or function in functions.__all__


def optional_operands(kind: type[RelaxOperation]) -> tuple[str, ...]:
    """The operands that a call may omit."""
    fields = kind.operand_fields.items()
    return tuple(name for name, field in fields if get_origin(field) is Sequence)


def argument_value(
    argument: Expr, symbols: Symbols, *, keeps_types: bool = False
) -> Any:  # Any: the type depends on the attribute
    """A constant argument as the Python value of an attribute.

    Args:
        argument: the argument of a call.
        symbols: the symbol table for its sizes.
        keeps_types: whether a number keeps its element type, as a numpy scalar.

    Raises:
        ValueError: the argument is not constant.
    """
    if isinstance(argument, ShapeExpr):
        return symbols.dims(argument.values)
    if isinstance(argument, PrimValue):
        if not isinstance(argument.value, (prim.IntImm, prim.FloatImm)):
            return symbols.dim(argument.value)
        number = argument.value.value
        return typed_number(argument.value) if keeps_types else number
    if isinstance(argument, (StringImm, DataTypeImm)):
        return argument.value
    if isinstance(argument, Tuple):
        return tuple(argument_value(field, symbols) for field in argument.fields)
    if isinstance(argument, Constant) and argument.array.ndim == 0:
        return argument.array.item()
    raise ValueError(f"`{argument!r}` is computed: expected a constant")


def typed_number(literal: prim.IntImm | prim.FloatImm) -> np.generic:
    """A literal as a numpy scalar of its element type."""
    return dtypes.dtype(literal.dtype).numpy.type(literal.value)


# Attributes that Relax passes as tuples of scalars; other lists of sizes are shapes.
_SCALAR_TUPLES = frozenset({"axes", "begin", "end", "strides"})


def argument_expr(
    kind: type[RelaxOperation], name: str, value: Any
) -> Expr:  # Any: the type depends on the attribute
    """The value of an attribute as an argument of a Relax call."""
    if isinstance(value, dtypes.DType):
        return DataTypeImm(value.name)
    if isinstance(value, (tuple, list)):
        is_shape = kind.attribute_fields[name] is ir.Attribute
        if is_shape and name not in _SCALAR_TUPLES:
            return ShapeExpr(value)
        return Tuple([PrimValue(v) for v in value])
    if kind.keeps_number_types and isinstance(value, float):
        return PrimValue(prim.FloatImm(_float_type(value), value))
    return convert(value)


def _float_type(value: float) -> str:
    """The element type of a float: float64, or that of a numpy scalar."""
    return value.dtype.name if isinstance(value, np.generic) else "float64"


def static_arguments(
    kind: type[RelaxOperation], call: Call, symbols: Symbols
) -> tuple[list[Expr], dict[str, Any]]:
    """The operands of a call, and its attributes as Python values.

    Raises:
        ValueError: an argument that is an attribute of the operation is not constant.
    """
    operands: list[Expr] = []
    attrs: dict[str, Any] = {}
    for name, argument in zip(kind.argument_order(), call.args, strict=False):
        if name in kind.operand_fields:
            operands.append(argument)
        else:
            keeps = kind.keeps_number_types
            attrs[name] = argument_value(argument, symbols, keeps_types=keeps)
    for name, value in call.attrs.items():
        is_type = kind.attribute_fields.get(name) is ir.TypeAttr
        attrs[name] = dtypes.dtype(value) if is_type and value is not None else value
    return operands, attrs


def infer_operator(call: Call, symbols: Symbols) -> StructInfo:
    """Infers the struct info of an operator call; needs a current context and location.

    Raises:
        OperatorError: the arguments are invalid.
    """
    assert isinstance(call.op, Op)
    registered = _registered_inference(call.op)
    if registered is not None:
        return registered(call, symbols)
    return _infer_own(call, symbols)


def _infer_own(call: Call, symbols: Symbols) -> StructInfo:
    """Infers the struct info of a call whose operator has no registered inference."""
    assert isinstance(call.op, Op)
    if call.sinfo_args:
        many = len(call.sinfo_args) > 1
        return TupleStructInfo(call.sinfo_args) if many else call.sinfo_args[0]
    kind = operation_class(call.op.name)
    if kind is None:
        return _infer_structural(call)
    try:
        return _infer_operation(kind, call, symbols)
    except ValueError as error:
        text = str(error)
        where = "" if f"`{call.op.name}`" in text else f"`{call.op.name}`: "
        raise OperatorError(f"{where}{text}") from error
    except (AttributeError, TypeError) as error:  # a malformed hand-written call
        infos = ", ".join(str(a.struct_info_or_none()) for a in call.args)
        raise OperatorError(
            f"`{call.op.name}`: expected operands and attributes of the operator, got "
            f"({infos}), {short_repr(call.attrs)}"
        ) from error


def _infer_structural(call: Call) -> StructInfo:
    """Infers the struct info of an operator that has no operation class."""
    assert isinstance(call.op, Op)
    name = call.op.name
    if name not in ("relax.to_vdevice", "relax.hint_on_device"):
        return infer_storage(name, call.args)
    info = _known_info(call.args[0], call)
    if not isinstance(info, TensorStructInfo):
        raise OperatorError(f"`{name}`: expected a tensor, got {info}")
    if name == "relax.hint_on_device":
        return info
    device = VDevice.parse(str(call.attrs["dst_vdevice"]))
    return info.replace(vdevice=device)


def _infer_operation(
    kind: type[RelaxOperation], call: Call, symbols: Symbols
) -> StructInfo:
    _check_arity(kind, call)
    shaped = _result_of_shape_argument(kind, call)
    if shaped is not None:
        return shaped
    unknown_shapes: list[tuple[Expr, list[prim.Var]]] = []
    named = zip(kind.argument_order(), call.args, strict=False)
    args = [_known_value(a, unknown_shapes, is_opaque=n == "size") for n, a in named]
    _check_attributes(kind, args)
    assert isinstance(call.op, Op)
    if call.op.name in _KEEP_SHAPES:
        args = [_placeholder(a) for a in args]
    try:
        known = Call(call.op, args, call.attrs)
        operands, attrs = static_arguments(kind, known, symbols)
    except ValueError:
        return ObjectStructInfo()
    infos = [_known_info(o, call) for o in operands]
    inference = PartialInference(kind, attrs, symbols)
    for shape_var, sizes in unknown_shapes:
        inference.mark_unknown(map(symbols.name, sizes))
        inference.bind_shape_var(shape_var, symbols.dims(sizes))
    return _with_shape_argument(kind, call, inference.result(infos))


def _with_shape_argument(
    kind: type[RelaxOperation], call: Call, info: StructInfo
) -> StructInfo:
    """Struct info with the shape variable that was passed as the shape argument."""
    arguments = dict(zip(kind.argument_order(), call.args, strict=False))
    shape = arguments.get("shape")
    has_shape_argument = isinstance(shape, Var) and kind.SHORT_NAME != "reshape"
    if not has_shape_argument or not isinstance(info, TensorStructInfo):
        return info
    return TensorStructInfo(shape, info.dtype, info.vdevice)


# Operations whose result does not depend on the values of scalar arguments.
_KEEP_SHAPES = frozenset({"relax.clip", "relax.tril", "relax.triu"})


def _placeholder(argument: Expr) -> Expr:
    """A placeholder constant for a computed scalar."""
    info = argument.struct_info_or_none()
    is_computed = isinstance(info, PrimStructInfo) and isinstance(argument, Var)
    return PrimValue(0) if is_computed else argument


def _check_attributes(kind: type[RelaxOperation], args: Sequence[Expr]) -> None:
    """Rejects tensors where sizes or scalars are expected.

    Raises:
        ValueError: an argument is a tensor.
    """
    for name, argument in zip(kind.argument_order(), args, strict=False):
        info = argument.struct_info_or_none()
        is_tensor = isinstance(info, TensorStructInfo)
        if name in kind.attribute_fields and is_tensor and isinstance(argument, Var):
            raise ValueError(f"{name}: expected sizes or scalars, got {info}")
        if name == "size" and isinstance(info, ShapeStructInfo) and info.ndim < 0:
            raise ValueError(f"{name}: expected sizes, of which the number is known")


def _result_of_shape_argument(
    kind: type[RelaxOperation], call: Call
) -> StructInfo | None:
    """The result with the shape of a shape argument whose sizes are unknown, else None."""
    arguments = dict(zip(kind.argument_order(), call.args, strict=False))
    shape = arguments.pop("shape", None)
    info = shape.struct_info_or_none() if isinstance(shape, Var) else None
    if not isinstance(info, ShapeStructInfo) or info.values is not None:
        return None
    operands = [_known_info(argument, call) for argument in arguments.values()]
    if not all(isinstance(operand, TensorStructInfo) for operand in operands):
        raise ValueError(f"expected tensors, got {', '.join(map(str, operands))}")
    inputs = [o for o in operands if isinstance(o, TensorStructInfo)]
    rank = inputs[0].ndim if kind.SHORT_NAME == "broadcast_to" else 0
    if 0 <= info.ndim < rank:
        raise ValueError(f"cannot broadcast rank {rank} to rank {info.ndim}")
    given = call.attrs.get("dtype")
    dtype = given or (inputs[0].dtype if inputs else "void")
    vdevice = inputs[0].vdevice if inputs else None
    return TensorStructInfo(shape, str(dtype), vdevice)


def _known_value(
    argument: Expr,
    unknown_shapes: list[tuple[Expr, list[prim.Var]]],
    *,
    is_opaque: bool,
) -> Expr:
    """A variable replaced by the sizes that it holds; unknown ones (``held``) are fresh."""
    if not isinstance(argument, Var):
        return argument
    info = argument.struct_info_or_none()
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return PrimValue(info.value)
    if not isinstance(info, ShapeStructInfo):
        return argument
    if info.values is not None and not is_opaque:
        return ShapeExpr(info.values)
    if info.ndim < 0:
        return argument
    sizes = [prim.Var("unknown", "int64") for _ in range(info.ndim)]
    unknown_shapes.append((argument, sizes))
    return ShapeExpr(sizes)


def _check_arity(kind: type[RelaxOperation], call: Call) -> None:
    expected = len(kind.operand_fields) - len(optional_operands(kind))
    if len(call.args) < expected:
        raise ValueError(
            f"`relax.{kind.script_name()}` takes {expected} arguments, got {len(call.args)}"
        )


def _known_info(operand: Expr, call: Call) -> StructInfo:
    info = operand.struct_info_or_none()
    if info is None:
        raise ValueError(f"`{call!r}`: argument `{operand!r}` has no struct info")
    return info
