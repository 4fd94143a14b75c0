"""Relax's operators by name: their operations, and what is known of their results."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_origin

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.relax.core import RelaxOperation, relax_ops
from relax_mlir.dialects.relax.graph import OPERATOR_EFFECTS
from relax_mlir.errors import OperatorError, UnknownOperatorError, near_misses, shown
from relax_mlir.objects import functions, prim
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
from relax_mlir.objects.partial_inference import PartialInference
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.storage_inference import infer_storage
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)

__all__ = [
    "STRUCTURAL",
    "argument_expr",
    "argument_value",
    "get_op",
    "infer_operator",
    "normal_form_of",
    "operation_class",
    "operator_names",
    "optional_operands",
    "own_attr",
    "register_op_attr",
    "static_arguments",
    "typed_number",
]

# Operators that are no tensor operations; the reader and the writer know each of them.
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
    """The operation that an operator is, or None if it has none of its own."""
    return _classes().get(name)


def operator_names() -> Iterator[str]:
    """Every operator."""
    yield from sorted({*_classes(), *STRUCTURAL})


_INFER = ("FInferStructInfo", "FInferType")  # the older and the newer name
_REGISTERED = (*_INFER, "FLegalize", "FPurity")


def register_op_attr(
    op_name: str, attr_key: str, value: Any = None, level: int = 10
) -> Any:  # Any: as many types as attributes
    """Register something of an operator, which need not be known; or decorate it.

    Args:
        op_name: such as ``relax.add``.
        attr_key: ``FLegalize``, a function from a builder and a call to what replaces the
            call; ``FInferStructInfo``, one from a call and a context to what is known of
            its result; ``FPurity``, whether a call only computes; ``FNormalize``, one from
            a builder and a call to the call in normal form; or any other name.
        value: what is registered.
        level: accepted and without effect: the last one counts.
    """

    def register(value: Any) -> Any:
        Op.of(op_name).set_attr(attr_key, value, level)
        return value

    return register if value is None else register(value)


def _registered_inference(op: Op) -> Callable[..., StructInfo] | None:
    return next((op.get_attr(name) for name in _INFER if op.has_attr(name)), None)


def normal_form_of(op: Expr) -> Callable[..., Expr] | None:
    """What brings calls of an operator to normal form, from a builder and a call.

    A program may register it as ``FNormalize``. Calls of tensor programs list their
    arguments in place.
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
    """A call of a tensor program whose arguments are no variable of a tuple.

    Args:
        builder: tells what a variable is bound to.
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


def own_attr(op: Op, name: str) -> Any:
    """What an operator has under a name without being told: how its result is inferred."""
    if name not in _INFER or operation_class(op.name) is None:
        return None

    def infer_result(call: Call, context: Any = None) -> StructInfo:
        names = context if isinstance(context, Symbols) else Symbols()
        return _infer_own(Call(op, call.args, call.attrs, call.sinfo_args), names)

    return infer_result


def get_op(name: str) -> Op:
    """The operator called ``name``.

    Raises:
        AttributeError: there is none.
    """
    is_known = name in _classes() or name in STRUCTURAL or _is_of_scalars(name)
    if not is_known and not any(map(Op.of(name).has_attr, _REGISTERED)):
        raise UnknownOperatorError(
            f"operator `{name}` is not registered.{near_misses(name, operator_names())}"
        )
    return Op.of(name)


def _is_of_scalars(name: str) -> bool:
    """Whether an operator is an intrinsic of tensor programs."""
    level, _, function = name.partition(".")
    if level not in ("tir", "tirx"):
        return False
    intrinsics = importlib.import_module("relax_mlir.script.tir_calls").INTRINSICS
    return function in intrinsics or function in functions.__all__


def optional_operands(kind: type[RelaxOperation]) -> tuple[str, ...]:
    """The operands that a call may leave out."""
    fields = kind.operand_fields.items()
    return tuple(name for name, field in fields if get_origin(field) is Sequence)


def argument_value(
    argument: Expr, names: Symbols, *, keeps_types: bool = False
) -> Any:  # Any: as many as attributes
    """A constant argument as the Python value of an attribute.

    Args:
        argument: what a call passes.
        names: of the sizes in it.
        keeps_types: whether a number keeps its element type, as a scalar of numpy.

    Raises:
        ValueError: its value is not known before the program runs.
    """
    if isinstance(argument, ShapeExpr):
        return names.dims(argument.values)
    if isinstance(argument, PrimValue):
        if not isinstance(argument.value, (prim.IntImm, prim.FloatImm)):
            return names.dim(argument.value)
        number = argument.value.value
        return typed_number(argument.value) if keeps_types else number
    if isinstance(argument, (StringImm, DataTypeImm)):
        return argument.value
    if isinstance(argument, Tuple):
        return tuple(argument_value(field, names) for field in argument.fields)
    if isinstance(argument, Constant) and argument.array.ndim == 0:
        return argument.array.item()
    raise ValueError(f"`{argument!r}` is computed: expected a constant")


def typed_number(term: prim.IntImm | prim.FloatImm) -> np.generic:
    """A literal as a scalar of numpy, which has its element type."""
    return dtypes.dtype(term.dtype).numpy.type(term.value)


# Arguments that Relax passes as tuples of scalars; other lists of sizes are shapes.
_SCALAR_TUPLES = frozenset({"axes", "begin", "end", "strides"})


def argument_expr(
    kind: type[RelaxOperation], name: str, value: Any
) -> Expr:  # Any: as many as attributes
    """The value of an attribute as the argument that Relax passes for it."""
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
    """The type of a float: float64, unless it is a scalar of numpy."""
    return value.dtype.name if isinstance(value, np.generic) else "float64"


def static_arguments(
    kind: type[RelaxOperation], call: Call, names: Symbols
) -> tuple[list[Expr], dict[str, Any]]:
    """The operands of a call, and the Python values of all attributes.

    Raises:
        ValueError: an argument that is an attribute of ours is computed.
    """
    operands: list[Expr] = []
    attrs: dict[str, Any] = {}
    for name, argument in zip(kind.argument_order(), call.args, strict=False):
        if name in kind.operand_fields:
            operands.append(argument)
        else:
            keeps = kind.keeps_number_types
            attrs[name] = argument_value(argument, names, keeps_types=keeps)
    for name, value in call.attrs.items():
        is_type = kind.attribute_fields.get(name) is ir.TypeAttr
        attrs[name] = dtypes.dtype(value) if is_type and value is not None else value
    return operands, attrs


def infer_operator(call: Call, names: Symbols) -> StructInfo:
    """What is known of the result of an operator; needs a current context and location.

    Raises:
        OperatorError: the arguments do not fit the operator.
    """
    assert isinstance(call.op, Op)
    registered = _registered_inference(call.op)
    if registered is not None:
        return registered(call, names)
    return _infer_own(call, names)


def _infer_own(call: Call, names: Symbols) -> StructInfo:
    """What is known of the result of an operator of which nothing is registered."""
    assert isinstance(call.op, Op)
    if call.sinfo_args:
        many = len(call.sinfo_args) > 1
        return TupleStructInfo(call.sinfo_args) if many else call.sinfo_args[0]
    kind = operation_class(call.op.name)
    if kind is None:
        return _of_structural(call)
    try:
        return _inferred(kind, call, names)
    except ValueError as error:
        text = str(error)
        where = "" if f"`{call.op.name}`" in text else f"`{call.op.name}`: "
        raise OperatorError(f"{where}{text}") from error
    except (AttributeError, TypeError) as error:  # a call that was made by hand
        infos = ", ".join(str(a.struct_info_or_none()) for a in call.args)
        raise OperatorError(
            f"`{call.op.name}`: operands or attributes of other types than it takes: got "
            f"({infos}), {shown(call.attrs)}"
        ) from error


def _of_structural(call: Call) -> StructInfo:
    """What is known of the result of an operator that is no tensor operation."""
    assert isinstance(call.op, Op)
    name = call.op.name
    if name not in ("relax.to_vdevice", "relax.hint_on_device"):
        return infer_storage(name, call.args)
    info = _known(call.args[0], call)
    if not isinstance(info, TensorStructInfo):
        raise OperatorError(f"`{name}`: expected a tensor, got {info}")
    if name == "relax.hint_on_device":
        return info
    device = VDevice.parse(str(call.attrs["dst_vdevice"]))
    return info.replace(vdevice=device)


def _inferred(kind: type[RelaxOperation], call: Call, names: Symbols) -> StructInfo:
    _check_arity(kind, call)
    shaped = _of_held_shape(kind, call)
    if shaped is not None:
        return shaped
    held: list[tuple[Expr, list[prim.Var]]] = []
    named = zip(kind.argument_order(), call.args, strict=False)
    args = [_value_known(a, held, is_opaque=n == "size") for n, a in named]
    _check_attributes(kind, args)
    assert isinstance(call.op, Op)
    if call.op.name in _KEEP_SHAPES:
        args = [_any_number(a) for a in args]
    try:
        known = Call(call.op, args, call.attrs)
        operands, attrs = static_arguments(kind, known, names)
    except ValueError:
        return ObjectStructInfo()
    infos = [_known(o, call) for o in operands]
    inference = PartialInference(kind, attrs, names)
    for holder, sizes in held:
        inference.forget(map(names.name, sizes))
        inference.hold(holder, names.dims(sizes))
    return _shaped_as_told(kind, call, inference.result(infos))


def _shaped_as_told(
    kind: type[RelaxOperation], call: Call, info: StructInfo
) -> StructInfo:
    """``info`` with the variable for a shape whose sizes it is known to hold."""
    arguments = dict(zip(kind.argument_order(), call.args, strict=False))
    shape = arguments.get("shape")
    is_told = isinstance(shape, Var) and kind.SHORT_NAME != "reshape"
    if not is_told or not isinstance(info, TensorStructInfo):
        return info
    return TensorStructInfo(shape, info.dtype, info.vdevice)


# What is known of the result is the same whatever their scalar arguments are.
_KEEP_SHAPES = frozenset({"relax.clip", "relax.tril", "relax.triu"})


def _any_number(argument: Expr) -> Expr:
    """A number in place of a scalar that is computed."""
    info = argument.struct_info_or_none()
    is_computed = isinstance(info, PrimStructInfo) and isinstance(argument, Var)
    return PrimValue(0) if is_computed else argument


def _check_attributes(kind: type[RelaxOperation], args: Sequence[Expr]) -> None:
    """Refuse tensors where sizes or scalars are expected.

    Raises:
        ValueError: there is one.
    """
    for name, argument in zip(kind.argument_order(), args, strict=False):
        info = argument.struct_info_or_none()
        is_tensor = isinstance(info, TensorStructInfo)
        if name in kind.attribute_fields and is_tensor and isinstance(argument, Var):
            raise ValueError(f"{name}: expected sizes or scalars, got {info}")
        if name == "size" and isinstance(info, ShapeStructInfo) and info.ndim < 0:
            raise ValueError(f"{name}: expected sizes, of which the number is known")


def _of_held_shape(kind: type[RelaxOperation], call: Call) -> StructInfo | None:
    """A result of the shape that an argument holds, of which no size is known."""
    arguments = dict(zip(kind.argument_order(), call.args, strict=False))
    shape = arguments.pop("shape", None)
    info = shape.struct_info_or_none() if isinstance(shape, Var) else None
    if not isinstance(info, ShapeStructInfo) or info.values is not None:
        return None
    operands = [_known(argument, call) for argument in arguments.values()]
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


def _value_known(
    argument: Expr, held: list[tuple[Expr, list[prim.Var]]], *, is_opaque: bool
) -> Expr:
    """Sizes in place of a variable that holds them, new ones (``held``) if need be."""
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
    held.append((argument, sizes))
    return ShapeExpr(sizes)


def _check_arity(kind: type[RelaxOperation], call: Call) -> None:
    expected = len(kind.operand_fields) - len(optional_operands(kind))
    if len(call.args) < expected:
        raise ValueError(
            f"`relax.{kind.script_name()}` takes {expected} arguments, got {len(call.args)}"
        )


def _known(operand: Expr, call: Call) -> StructInfo:
    info = operand.struct_info_or_none()
    if info is None:
        raise ValueError(f"`{call!r}`: nothing is known of argument `{operand!r}`")
    return info
