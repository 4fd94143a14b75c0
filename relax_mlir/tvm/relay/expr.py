"""Relay expressions: Relax expressions, and functions as first-class values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call as RelaxCall
from relax_mlir.objects.expr import Expr, Tuple, TupleGetItem, Var
from relax_mlir.objects.expr import const as const
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relay.text import text_of

__all__ = ["Call", "Function", "const", "operator", "var"]


def var(name_hint: str, shape: Sequence[int] = (), dtype: str = "float32") -> Var:
    """Makes a tensor variable."""
    return Var(name_hint, TensorStructInfo(shape, dtype))


def operator(name: str) -> Callable[..., RelaxCall]:
    """Returns the Relax operator called ``name``.

    Raises:
        AttributeError: Relax has no such operator.
    """
    return getattr(op, name)


class Call(RelaxCall):
    """A call of a :class:`Function` or an operator."""


class Function(Expr):
    """A Relay function.

    Args:
        params: its parameters.
        body: its result, an expression graph: a shared node is evaluated once.
    """

    def __init__(self, params: Sequence[Var], body: Expr) -> None:
        self.params = list(params)
        self.body = body
        self._module: IRModule | None = None

    @staticmethod
    def of(module: IRModule) -> Function:
        """Wraps the function ``main`` of a Relax module."""
        function = Function([], Tuple([]))
        function._module = module
        return function

    @property
    def module(self) -> IRModule:
        """The Relax module with this function as ``main`` and its callees as private functions."""
        if self._module is None:
            self._module = _build_module(self)
        return self._module

    def astext(self, show_meta_data: bool = True) -> str:
        """Prints it in Relay's text format."""
        return text_of(self.module)

    def __str__(self) -> str:
        return self.astext()

    __repr__ = __str__


def _build_module(function: Function) -> IRModule:
    builder = BlockBuilder()
    _add_function(builder, function, "main", private=False)
    return builder.get()


def _add_function(
    builder: BlockBuilder, function: Function, name: str, *, private: bool
) -> Any:
    """Adds a function to the builder's module; returns its ``GlobalVar``."""
    attrs = {"Primitive": 1} if private else {}
    params = [Var(p.name_hint, p.struct_info) for p in function.params]
    converted: dict[int, Expr] = {
        id(old): new for old, new in zip(function.params, params, strict=True)
    }
    with builder.function(name, params, attrs=attrs, private=private):
        with builder.dataflow():
            result = builder.emit_output(_convert(builder, function.body, converted))
        return builder.emit_func_output(result)


def _convert_argument(
    builder: BlockBuilder, expr: Expr, converted: dict[int, Expr]
) -> Expr:
    """Converts ``expr`` to an argument; a call is bound to a variable, once."""
    if id(expr) not in converted:
        value = _convert(builder, expr, converted)
        is_call = isinstance(value, (RelaxCall, TupleGetItem))
        converted[id(expr)] = builder.emit(value) if is_call else value
    return converted[id(expr)]


def _convert(builder: BlockBuilder, expr: Expr, converted: dict[int, Expr]) -> Expr:
    """Converts ``expr`` to an expression over the builder's variables, in A-normal form."""
    if id(expr) in converted:
        return converted[id(expr)]
    if isinstance(expr, Tuple):
        return Tuple([_convert_argument(builder, f, converted) for f in expr.fields])
    if isinstance(expr, TupleGetItem):
        source = _convert_argument(builder, expr.tuple_value, converted)
        return TupleGetItem(source, expr.index)
    if isinstance(expr, RelaxCall):
        args = [_convert_argument(builder, a, converted) for a in expr.args]
        callee: Any = expr.op
        if isinstance(callee, Function):
            callee = _add_function(builder, callee, "fused", private=True)
        return RelaxCall(callee, args, expr.attrs)
    return expr
