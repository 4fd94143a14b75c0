"""Calls of the tensor programs that functions on tensor expressions make."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import TensorArgumentError, shown
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
from relax_mlir.objects.names import identifier
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.te.operation import placeholder
from relax_mlir.te.program import create_prim_func
from relax_mlir.te.tensor import Tensor

if TYPE_CHECKING:
    from relax_mlir.relax.block_builder import BlockBuilder

__all__ = ["call_te", "gen_call_tir_inputs", "te_tensor"]

# Arguments of ``call_te`` that are not passed on, in all spellings.
_TYPE_ARGUMENTS = ("sinfo_args", "ty_args")


def call_te(
    builder: BlockBuilder, func: Callable[..., Any], *args: Any, **kwargs: Any
) -> Call:
    """A call of the tensor program that ``func`` makes; the program is added.

    Args:
        builder: whose module gets the program.
        func: from tensors and plain values to a tensor, or to several.
        *args: expressions, which ``func`` gets as tensors; shapes as lists of sizes;
            lists, tuples and dictionaries of such; and plain values, which stay.
        **kwargs: likewise, but for ``primfunc_name_hint`` (what the program is called,
            by default as ``func``; other characters than those of identifiers become
            ``_``), ``primfunc_attrs`` (attributes of the program), ``te_grad_name`` and ``te_grad_kwargs`` (how its gradient is made).

    Raises:
        TensorArgumentError: an argument is none of these, or ``func`` gives no tensors.
    """
    hint = kwargs.pop("primfunc_name_hint", None)
    grad_name = kwargs.pop("te_grad_name", None)
    grad_kwargs = kwargs.pop("te_grad_kwargs", None)
    program, call_args, infos = gen_call_tir_inputs(func, *args, **kwargs)
    callee = builder.add_func(program, identifier(hint or func.__name__))
    return _call(callee, call_args, infos, grad_name, grad_kwargs)


def _call(
    callee: Expr,
    call_args: Sequence[Any],
    infos: Sequence[StructInfo],
    grad_name: str | None,
    grad_kwargs: Mapping[str, Any] | None,
) -> Call:
    """A ``call_tir``; tensors are its arguments, and sizes stand beside them."""
    tensors = [a for a in call_args if isinstance(a, Expr)]
    sizes = [a for a in call_args if not isinstance(a, Expr)]
    arguments: list[Expr] = [callee, Tuple(tensors)]
    arguments += [ShapeExpr(sizes)] if sizes else []
    out = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    if grad_name is None:
        return Call(Op.get("relax.call_tir"), arguments, None, [out])
    attrs = {"te_grad_name": grad_name, "te_grad_kwargs": dict(grad_kwargs or {})}
    return Call(Op.get("relax.call_tir_with_grad"), arguments, attrs, [out])


def _check_takes(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Check that a function can be called with so many arguments of these names.

    Raises:
        TensorArgumentError: it cannot.
    """
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return  # written in C
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(func, "__name__", type(func).__name__)
        raise TensorArgumentError(f"call_te: `{name}`: {error}") from None


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[PrimFunc, list[Any], list[StructInfo]]:
    """The program that ``func`` makes, what to call it with, and what that gives.

    Args:
        func, *args, **kwargs: see :func:`call_te`.

    Returns:
        The program; expressions, then sizes that no tensor tells; and what is known of
        every result.

    Raises:
        TensorArgumentError: an argument is none that can be converted, or ``func`` gives no
            tensors.
    """
    attrs = kwargs.pop("primfunc_attrs", None)
    given = [kwargs.pop(name, None) for name in _TYPE_ARGUMENTS]
    inputs = _Inputs()
    converted = inputs.convert(tuple(args))
    options = inputs.convert(dict(kwargs))
    _check_takes(func, converted, options)
    made = func(*converted, **options)
    outputs = [made] if isinstance(made, Tensor) else made
    if not isinstance(outputs, (list, tuple)) or not all(
        isinstance(t, Tensor) for t in outputs
    ):
        raise TensorArgumentError(
            f"call_te: expected `{getattr(func, '__name__', 'func')}` to give a tensor or several, got {shown(made)}"
        )
    sizes = inputs.unbound(outputs)
    program = create_prim_func([*inputs.parameters, *outputs, *sizes], "int64")
    program = program.with_only_attrs(
        {
            k: v
            for k, v in {**program.attrs, **(attrs or {})}.items()
            if k != "global_symbol"
        }
    )
    infos = next((list(types) for types in given if types), None)
    if infos is None:
        infos = [inputs.info(tensor, _vdevice(args)) for tensor in outputs]
    return program, [*inputs.arguments, *map(inputs.outer, sizes)], infos


class _Inputs:
    """What the arguments of one call become.

    The program has size variables of its own, so that it means the same everywhere.

    Attributes:
        parameters: of the program: tensors and variables.
        arguments: the expressions that are passed for them.
    """

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self.arguments: list[Any] = []
        self._extra: list[PrimExpr] = []
        self._inner: dict[prim.Var, prim.Var] = {}

    def convert(self, value: Any) -> Any:
        """An argument as the function gets it.

        Raises:
            TensorArgumentError: it is none that can be converted.
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
                    f"call_te: expected names as keys, got {shown(key)}"
                )
        return {key: self.convert(one) for key, one in values.items()}

    def _scalar(self, value: PrimExpr | PrimValue) -> PrimExpr:
        term = value.value if isinstance(value, PrimValue) else value
        inner = self._renamed(term)
        self._extra.append(inner)
        return inner

    def _renamed(self, term: PrimExpr) -> PrimExpr:
        """A size in the variables of the program."""
        for part in prim.post_order(term):
            if isinstance(part, prim.Var) and part not in self._inner:
                self._inner[part] = prim.Var(part.name, part.dtype)
        return prim.substitute(term, self._inner)

    def _expression(self, value: Expr) -> Any:
        info = value.struct_info
        if isinstance(info, PrimStructInfo):
            return self._prim(value, info)
        if isinstance(info, ShapeStructInfo):
            if not isinstance(value, ShapeExpr):
                raise TensorArgumentError(
                    f"call_te: expected a shape that is written out, got `{shown(value)}`"
                )
            return [self._scalar(size) for size in value]
        if not isinstance(info, TensorStructInfo) or not isinstance(
            info.shape, ShapeExpr
        ):
            raise TensorArgumentError(
                f"emit_te now only supports Tensor that has ShapeExpr shape, got `{shown(value)}`"
                f" of {info}"
            )
        shape = [self._renamed(size) for size in info.shape.values]
        tensor = placeholder(shape, info.dtype, self._name(value))
        self.parameters.append(tensor)
        self.arguments.append(value)
        return tensor

    def _prim(self, value: Expr, info: PrimStructInfo) -> PrimExpr:
        """A scalar: the size that it is, or a parameter of the program."""
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
        """The size variables that no tensor has as a whole dimension."""
        tensors = [p for p in self.parameters if isinstance(p, Tensor)]
        sizes = [size for t in (*tensors, *outputs) for size in t.shape]
        told = {size for size in sizes if isinstance(size, prim.Var)}
        told |= {p for p in self.parameters if isinstance(p, prim.Var)}
        used = [t for s in (*sizes, *self._extra) for t in prim.post_order(s)]
        found = dict.fromkeys(t for t in used if isinstance(t, prim.Var))
        return [var for var in found if var not in told]

    def outer(self, term: PrimExpr) -> PrimExpr:
        """A size in the variables of the caller."""
        return prim.substitute(term, {v: k for k, v in self._inner.items()})

    def info(self, tensor: Tensor, vdevice: VDevice | None) -> StructInfo:
        """What is known of a result."""
        sizes = [self.outer(size) for size in tensor.shape]
        return TensorStructInfo(sizes, tensor.dtype, vdevice)


def _vdevice(value: Any) -> VDevice | None:
    """Where the first tensor among arguments lives, if one says so."""
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
    """The given tensor that stands for an expression.

    Args:
        value: a tensor whose shape is known.
        tir_var_map: what to put for the variables of its shape.
        name: what the tensor is called.
    """
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        raise TensorArgumentError(
            f"te_tensor: expected a tensor with a known shape, got {info}"
        )
    shape = [prim.substitute(s, tir_var_map or {}) for s in info.shape.values]
    return placeholder(shape, info.dtype, name)
