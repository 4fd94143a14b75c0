"""Relax's operators by name: their operations, and what is known of their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, get_origin

from mlir import ir

from relax_mlir.dialects import constraints, dtypes, tensors
from relax_mlir.dialects import symbols as symbol_text
from relax_mlir.dialects.dims import Dim, symbol
from relax_mlir.dialects.relax.core import RelaxOperation, relax_ops
from relax_mlir.errors import near_misses
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
    Var,
    convert,
)
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    from_mlir,
    to_mlir,
)

__all__ = [
    "STRUCTURAL",
    "argument_expr",
    "argument_value",
    "get_op",
    "infer_operator",
    "operation_class",
    "operator_names",
    "optional_operands",
    "static_arguments",
]

# Operators that are no tensor operations; the reader and the writer know each of them.
STRUCTURAL = frozenset(
    f"relax.{name}"
    for name in (
        *("call_tir", "call_tir_inplace", "call_tir_with_grad", "call_dps_packed"),
        *("call_pure_packed", "call_inplace_packed", "call_builtin_with_ctx"),
        *("call_py_func", "invoke_closure", "invoke_pure_closure", "make_closure"),
        *("null_value", "print", "assert_op", "shape_of", "tensor_to_shape"),
        *("builtin.alloc_tensor", "builtin.stop_lift_params", "memory.alloc_storage"),
        *("memory.alloc_tensor", "memory.kill_storage", "memory.kill_tensor"),
        *("memory.view", "memory.ensure_zero_offset", "vm.alloc_storage"),
        *("vm.alloc_tensor", "vm.kill_object", "vm.call_tir_dyn"),
        *("to_vdevice", "hint_on_device", "wrap_param", "size"),
    )
)


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


def get_op(name: str) -> Op:
    """The operator called ``name``.

    Raises:
        AttributeError: there is none.
    """
    if name not in _classes() and name not in STRUCTURAL:
        raise AttributeError(
            f"operator `{name}` is not registered.{near_misses(name, operator_names())}"
        )
    return Op.of(name)


def optional_operands(kind: type[RelaxOperation]) -> tuple[str, ...]:
    """The operands that a call may leave out."""
    fields = kind.operand_fields.items()
    return tuple(name for name, field in fields if get_origin(field) is Sequence)


def argument_value(argument: Expr, names: Symbols) -> Any:  # Any: as many as attributes
    """A constant argument as the Python value of an attribute.

    Raises:
        ValueError: its value is not known before the program runs.
    """
    if isinstance(argument, ShapeExpr):
        return names.dims(argument.values)
    if isinstance(argument, PrimValue):
        number = getattr(argument.value, "value", None)
        return names.dim(argument.value) if number is None else number
    if isinstance(argument, (StringImm, DataTypeImm)):
        return argument.value
    if isinstance(argument, Tuple):
        return tuple(argument_value(field, names) for field in argument.fields)
    if isinstance(argument, Constant) and argument.array.ndim == 0:
        return argument.array.item()
    raise ValueError(f"`{argument!r}` is computed: expected a constant")


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
    return convert(value)


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
            attrs[name] = argument_value(argument, names)
    for name, value in call.attrs.items():
        is_type = kind.attribute_fields.get(name) is ir.TypeAttr
        attrs[name] = dtypes.dtype(value) if is_type and value is not None else value
    return operands, attrs


def infer_operator(call: Call, names: Symbols) -> StructInfo:
    """What is known of the result of an operator; needs a current context and location.

    Raises:
        ValueError: the arguments do not fit the operator.
    """
    assert isinstance(call.op, Op)
    if call.sinfo_args:
        many = len(call.sinfo_args) > 1
        return TupleStructInfo(call.sinfo_args) if many else call.sinfo_args[0]
    kind = operation_class(call.op.name)
    if kind is None:
        return ObjectStructInfo()
    _check_arity(kind, call)
    unknown: list[prim.Var] = []
    args = [_value_known(a, unknown) for a in call.args]
    try:
        known = Call(call.op, args, call.attrs)
        operands, attrs = static_arguments(kind, known, names)
    except ValueError:
        return ObjectStructInfo()
    infos = [_known(o, call) for o in operands]
    inference = _Inference(kind, attrs, names)
    inference.forget(map(names.name, unknown))
    return inference.result(infos)


def _value_known(argument: Expr, unknown: list[prim.Var]) -> Expr:
    """Sizes in place of a variable that holds them, ``unknown`` ones if need be."""
    if not isinstance(argument, Var):
        return argument
    info = argument.struct_info_or_none()
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return PrimValue(info.value)
    if not isinstance(info, ShapeStructInfo):
        return argument
    if info.values is not None:
        return ShapeExpr(info.values)
    if info.ndim < 0:
        return argument
    sizes = [prim.Var("unknown", "int64") for _ in range(info.ndim)]
    unknown += sizes
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


class _Inference:
    """One application of an operation's ``infer`` to types that may be known in part.

    A size that is not known becomes a symbol of its own; where one shows in the result,
    its shape is not known either. An element type that is not known is tried as two
    types: what they agree on is known.
    """

    _MAX_RANK = 5

    def __init__(
        self, kind: type[RelaxOperation], attrs: dict[str, Any], names: Symbols
    ) -> None:
        self.kind = kind
        self.attrs = {**kind.attribute_defaults(), **attrs}
        self.names = names
        self._fresh = count()
        self._unknown: set[str] = set()

    def forget(self, names: Iterable[str]) -> None:
        """The sizes with these names are not known."""
        self._unknown.update(names)

    def result(self, infos: Sequence[StructInfo]) -> StructInfo:
        """What the operation gives for operands of which ``infos`` are known."""
        tensors_ = list(_tensors_in(infos))
        known = [t.dtype for t in tensors_ if t.dtype not in ("void", "bool")]
        dtype = known[0] if known else "float32"
        ranks: Sequence[int | None] = [None]
        if any(t.ndim < 0 for t in tensors_):
            ranks = range(1, self._MAX_RANK)
        for rank in ranks:
            try:
                found = self._infer(infos, {"void": dtype}, rank)
                if any(t.dtype == "void" for t in tensors_):
                    found = _agreed(found, self._with_another(infos, dtype, rank))
            except ValueError:
                if rank is None and self._takes_numbers_alone(tensors_):
                    return self._ranks_alone(infos, dtype)
                if rank is None:
                    raise
                continue
            return _forget(found, shape=rank is not None)
        return ObjectStructInfo()

    def _takes_numbers_alone(self, infos: Sequence[TensorStructInfo]) -> bool:
        """Whether sizes that are not known are the reason why nothing is inferred."""
        has_kernel = "kernel_layout" in self.kind.attribute_fields
        return has_kernel and any(info.shape is None for info in infos)

    def _ranks_alone(self, infos: Sequence[StructInfo], dtype: str) -> StructInfo:
        """The result for tensors of which type and rank are known."""
        ones = [
            TensorStructInfo([1] * info.ndim, info.dtype)
            if isinstance(info, TensorStructInfo)
            else info
            for info in infos
        ]
        found = self._infer(ones, {"void": dtype}, None)
        assert isinstance(found, TensorStructInfo)
        return TensorStructInfo(dtype=found.dtype, ndim=found.ndim)

    def _with_another(
        self, infos: Sequence[StructInfo], dtype: str, rank: int | None
    ) -> StructInfo:
        """The result where another type that the operation takes stands for ``dtype``."""
        others = [d for d in ("int64", "float16", "float32") if d != dtype]
        replaced = [{"void": other, dtype: other} for other in others]
        with suppress(ValueError):
            return self._infer(infos, replaced[0], rank)
        return self._infer(infos, replaced[1], rank)

    def _infer(
        self, infos: Sequence[StructInfo], dtypes_: Mapping[str, str], rank: int | None
    ) -> StructInfo:
        types = [self._type(info, dtypes_, rank) for info in infos]
        with constraints.collect() as assumed:
            inferred = self.kind.infer(*types, **self.attrs)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        doubtful = self._doubtful(assumed)
        made = [self._info(type_, doubtful) for type_ in results]
        return made[0] if len(made) == 1 else TupleStructInfo(made)

    def _doubtful(self, assumed: Any) -> set[Dim]:
        """Sizes that are right only if two expressions turn out to be equal."""
        if self.kind.argument_attributes:
            return set()  # the caller says what the result is
        open_ = [c for c in assumed if c.relation == "==" and not c.is_certain]
        return {side for c in open_ for side in (c.lhs, c.rhs)}

    def _type(
        self, info: StructInfo, dtypes_: Mapping[str, str], rank: int | None
    ) -> Any:
        if isinstance(info, TupleStructInfo):
            return tuple(self._type(field, dtypes_, rank) for field in info.fields)
        if not isinstance(info, TensorStructInfo):
            raise ValueError(
                f"`relax.{self.kind.script_name()}`: expected a tensor, got {info}"
            )
        element = dtypes.dtype(dtypes_.get(info.dtype, info.dtype))
        if isinstance(info.shape, ShapeExpr):
            return to_mlir(TensorStructInfo(info.shape, element.name), self.names)
        ndim = (rank or 0) if info.ndim < 0 else info.ndim
        dims = [symbol(f"unknown_{next(self._fresh)}") for _ in range(ndim)]
        self._unknown.update(map(str, dims))
        return tensors.tensor_type(dims, element)

    def _info(self, type_: ir.Type, doubtful: set[Dim]) -> StructInfo:
        if isinstance(type_, ir.TupleType):
            parts = [type_.get_type(i) for i in range(type_.num_types)]
            return TupleStructInfo([self._info(p, doubtful) for p in parts])
        if isinstance(type_, ir.RankedTensorType):
            if not type_.has_static_shape and type_.encoding is None:
                name = tensors.dtype_of(type_).name
                return TensorStructInfo(dtype=name, ndim=type_.rank)
            dims = tensors.shape_of(type_)
            used = {s for d in dims for s in symbol_text.symbols_of(d)}
            if used & self._unknown or doubtful & set(dims):
                name = tensors.dtype_of(type_).name
                return TensorStructInfo(dtype=name, ndim=len(dims))
        return from_mlir(type_, self.names)


def _tensors_in(infos: Sequence[StructInfo]) -> Iterator[TensorStructInfo]:
    for info in infos:
        if isinstance(info, TupleStructInfo):
            yield from _tensors_in(info.fields)
        elif isinstance(info, TensorStructInfo):
            yield info


def _agreed(a: StructInfo, b: StructInfo) -> StructInfo:
    """What holds for both."""
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        pairs = zip(a.fields, b.fields, strict=True)
        return TupleStructInfo([_agreed(x, y) for x, y in pairs])
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        dtype = a.dtype if a.dtype == b.dtype else "void"
        return TensorStructInfo(a.shape, dtype, a.vdevice, a.ndim)
    return a


def _forget(info: StructInfo, *, shape: bool) -> StructInfo:
    """``info`` without the shapes of tensors, if ``shape`` says so."""
    if shape and isinstance(info, TupleStructInfo):
        return TupleStructInfo([_forget(f, shape=True) for f in info.fields])
    if shape and isinstance(info, TensorStructInfo):
        return TensorStructInfo(dtype=info.dtype, vdevice=info.vdevice)
    return info
