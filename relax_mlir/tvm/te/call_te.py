"""``call_te``: calls of PrimFuncs generated from tensor expressions."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import TensorArgumentError, short_repr
from relax_mlir.ir.function_attributes import python_identifier
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Attrs,
    Call,
    Expr,
    Op,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    Var,
)
from relax_mlir.objects.expr.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.te.operation import placeholder
from relax_mlir.tvm.te.program import create_prim_func
from relax_mlir.tvm.te.tensor import Tensor

if TYPE_CHECKING:
    from relax_mlir.objects.block_builder import BlockBuilder

__all__ = ["call_te", "gen_call_tir_inputs", "te_tensor"]

# Arguments of ``call_te`` that are not passed to the function, in all spellings.
_TYPE_ARGUMENTS = ("sinfo_args", "ty_args")


def call_te(
    builder: BlockBuilder, func: Callable[..., Any], *args: Any, **kwargs: Any
) -> Call:
    """Generates a PrimFunc from ``func``, adds it to the module, and returns a call of it.

    Args:
        builder: the builder of the module.
        func: from tensors and plain values to a tensor, or to several.
        *args: expressions, passed to ``func`` as tensors; shapes, as lists of sizes; lists,
            tuples and dictionaries of such; and plain values, passed unchanged.
        **kwargs: likewise, except ``primfunc_name_hint`` (the name of the PrimFunc, by default
            that of ``func``; characters not allowed in identifiers become ``_``),
            ``primfunc_attrs`` (its attributes), ``te_grad_name`` and ``te_grad_kwargs`` (its
            gradient).

    Raises:
        TensorArgumentError: an argument is none of these, or ``func`` returns no tensors.
    """
    hint = kwargs.pop("primfunc_name_hint", None)
    grad_name = kwargs.pop("te_grad_name", None)
    grad_kwargs = kwargs.pop("te_grad_kwargs", None)
    prim_func, call_args, infos = gen_call_tir_inputs(func, *args, **kwargs)
    callee = builder.add_func(prim_func, python_identifier(hint or func.__name__))
    return _call(callee, call_args, infos, grad_name, grad_kwargs)


def _call(
    callee: Expr,
    call_args: Sequence[Any],
    infos: Sequence[StructInfo],
    grad_name: str | None,
    grad_kwargs: Mapping[str, Any] | None,
) -> Call:
    """A ``call_tir``; tensors are its arguments, symbolic sizes a shape beside them."""
    tensors = [a for a in call_args if isinstance(a, Expr)]
    sizes = [a for a in call_args if not isinstance(a, Expr)]
    arguments: list[Expr] = [callee, Tuple(tensors)]
    arguments += [ShapeExpr(sizes)] if sizes else []
    out = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    if grad_name is None:
        return Call(Op.get("relax.call_tir"), arguments, None, [out])
    attrs = {"te_grad_name": grad_name, "te_grad_kwargs": dict(grad_kwargs or {})}
    return Call(Op.get("relax.call_tir_with_grad"), arguments, attrs, [out])


def _check_signature(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Check arguments against the signature of a function.

    Raises:
        TensorArgumentError: they do not fit.
    """
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return  # a C function
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(func, "__name__", type(func).__name__)
        raise TensorArgumentError(f"call_te: `{name}`: {error}") from None


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[PrimFunc, list[Any], list[StructInfo]]:
    """The PrimFunc generated from ``func``, the arguments of its call, and the struct info.

    Args:
        func, *args, **kwargs: see :func:`call_te`.

    Returns:
        The PrimFunc; expressions, then sizes that no tensor shape determines; and the struct
        info of every result.

    Raises:
        TensorArgumentError: an argument cannot be converted, or ``func`` returns no tensors.
    """
    attrs = kwargs.pop("primfunc_attrs", None)
    struct_info_arguments = [kwargs.pop(name, None) for name in _TYPE_ARGUMENTS]
    inputs = _Inputs()
    converted = inputs.convert(tuple(args))
    options = inputs.convert(dict(kwargs))
    _check_signature(func, converted, options)
    result = func(*converted, **options)
    outputs = [result] if isinstance(result, Tensor) else result
    if not isinstance(outputs, (list, tuple)) or not all(
        isinstance(t, Tensor) for t in outputs
    ):
        raise TensorArgumentError(
            f"call_te: expected `{getattr(func, '__name__', 'func')}` to return a tensor or several, got {short_repr(result)}"
        )
    sizes = inputs.unbound(outputs)
    prim_func = create_prim_func([*inputs.parameters, *outputs, *sizes], "int64")
    prim_func = prim_func.with_only_attrs(
        {
            k: v
            for k, v in {**prim_func.attrs, **(attrs or {})}.items()
            if k != "global_symbol"
        }
    )
    infos = next((list(types) for types in struct_info_arguments if types), None)
    if infos is None:
        infos = [inputs.info(tensor, _vdevice(args)) for tensor in outputs]
    return prim_func, [*inputs.arguments, *map(inputs.outer, sizes)], infos


class _Inputs:
    """Conversion of the arguments of one call.

    The PrimFunc has size variables of its own, so that it is self-contained.

    Attributes:
        parameters: the parameters of the PrimFunc: tensors and variables.
        arguments: the expressions passed for them.
    """

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self.arguments: list[Any] = []
        self._extra: list[PrimExpr] = []
        self._inner: dict[prim.Var, prim.Var] = {}

    def convert(self, value: Any) -> Any:
        """An argument as it is passed to the function.

        Raises:
            TensorArgumentError: it cannot be converted.
        """
        if isinstance(value, (PrimExpr, PrimValue)):
            return self._scalar(value)
        if isinstance(value, StringImm):
            return value.value
        if isinstance(value, Expr) and not isinstance(value, Tuple):
            return self._expression(value)
        if isinstance(value, Attrs) or value is None:
            return value
        if isinstance(value, Mapping):
            return self._named(value)
        if isinstance(value, tuple):
            return tuple(map(self.convert, value))
        if isinstance(value, (list, Tuple)):
            return [self.convert(one) for one in value]
        if not isinstance(value, (int, float, str, StructInfo)):
            raise TensorArgumentError(
                f"not supported type in emit_te: {type(value).__name__}"
            )
        return value

    def _named(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        for key in values:
            if not isinstance(key, str):
                raise TensorArgumentError(
                    f"call_te: expected names as keys, got {short_repr(key)}"
                )
        return {key: self.convert(one) for key, one in values.items()}

    def _scalar(self, value: PrimExpr | PrimValue) -> PrimExpr:
        expr = value.value if isinstance(value, PrimValue) else value
        inner = self._with_inner_variables(expr)
        self._extra.append(inner)
        return inner

    def _with_inner_variables(self, expr: PrimExpr) -> PrimExpr:
        """A size in the variables of the PrimFunc."""
        for part in prim.post_order(expr):
            if isinstance(part, prim.Var) and part not in self._inner:
                self._inner[part] = prim.Var(part.name, part.dtype)
        return prim.substitute(expr, self._inner)

    def _expression(self, value: Expr) -> Any:
        info = value.struct_info
        if isinstance(info, PrimStructInfo):
            return self._prim(value, info)
        if isinstance(info, ShapeStructInfo):
            if not isinstance(value, ShapeExpr):
                raise TensorArgumentError(
                    f"call_te: expected a literal shape, got `{short_repr(value)}`"
                )
            return [self._scalar(size) for size in value]
        if not isinstance(info, TensorStructInfo) or not isinstance(
            info.shape, ShapeExpr
        ):
            raise TensorArgumentError(
                f"emit_te now only supports Tensor that has ShapeExpr shape, got `{short_repr(value)}`"
                f" of {info}"
            )
        shape = [self._with_inner_variables(size) for size in info.shape.values]
        tensor = placeholder(shape, info.dtype, self._name(value))
        self.parameters.append(tensor)
        self.arguments.append(value)
        return tensor

    def _prim(self, value: Expr, info: PrimStructInfo) -> PrimExpr:
        """A scalar: its known value, or a parameter of the PrimFunc."""
        if info.value is not None:
            return self._scalar(info.value)
        var = prim.Var(self._name(value), info.dtype)
        self.parameters.append(var)
        self.arguments.append(value)
        return var

    def _name(self, value: Expr) -> str:
        if isinstance(value, Var):
            return value.name_hint
        number = len(self.parameters)
        letters = string.ascii_uppercase
        return letters[number] if number < len(letters) else f"tensor_input_{number}"

    def unbound(self, outputs: Sequence[Tensor]) -> list[prim.Var]:
        """The size variables that are not dimensions of a tensor."""
        tensors = [p for p in self.parameters if isinstance(p, Tensor)]
        sizes = [size for t in (*tensors, *outputs) for size in t.shape]
        bound = {size for size in sizes if isinstance(size, prim.Var)}
        bound |= {p for p in self.parameters if isinstance(p, prim.Var)}
        used = [t for s in (*sizes, *self._extra) for t in prim.post_order(s)]
        found = dict.fromkeys(t for t in used if isinstance(t, prim.Var))
        return [var for var in found if var not in bound]

    def outer(self, expr: PrimExpr) -> PrimExpr:
        """A size in the variables of the caller."""
        return prim.substitute(expr, {v: k for k, v in self._inner.items()})

    def info(self, tensor: Tensor, vdevice: VDevice | None) -> StructInfo:
        """The struct info of a result."""
        sizes = [self.outer(size) for size in tensor.shape]
        return TensorStructInfo(sizes, tensor.dtype, vdevice)


def _vdevice(value: Any) -> VDevice | None:
    """The virtual device of the first tensor among arguments that has one."""
    if isinstance(value, Expr):
        return getattr(value.struct_info_or_none(), "vdevice", None)
    parts = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, (list, tuple, Mapping)):
        return None
    return next((found for found in map(_vdevice, parts) if found is not None), None)


def te_tensor(
    value: Expr,
    tir_var_map: Mapping[prim.Var, PrimExpr] | None = None,
    name: str = "rxplaceholder",
) -> Tensor:
    """The placeholder tensor of an expression.

    Args:
        value: a tensor of known shape.
        tir_var_map: substitutions of the variables of its shape.
        name: the name of the tensor.
    """
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        raise TensorArgumentError(
            f"te_tensor: expected a tensor with a known shape, got {info}"
        )
    shape = [prim.substitute(s, tir_var_map or {}) for s in info.shape.values]
    return placeholder(shape, info.dtype, name)
