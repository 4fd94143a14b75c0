"""Relay's expressions: terms of Relax, and functions that are values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call as RelaxCall
from relax_mlir.objects.expr import Expr, Tuple, TupleGetItem, Var
from relax_mlir.objects.expr import const as const
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax import op
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.tvm.relay.text import text_of

__all__ = ["Call", "Function", "const", "operator", "var"]


def var(name_hint: str, shape: Sequence[int] = (), dtype: str = "float32") -> Var:
    """A variable of a function."""
    return Var(name_hint, TensorStructInfo(shape, dtype))


def operator(name: str) -> Callable[..., RelaxCall]:
    """The operator ``name``, of Relax.

    Raises:
        AttributeError: there is none.
    """
    return getattr(op, name)


class Call(RelaxCall):
    """A call of a :class:`Function`, or of an operator."""


class Function(Expr):
    """A function of Relay.

    Args:
        params: its parameters.
        body: an expression in them; what it uses twice is computed once.
    """

    def __init__(self, params: Sequence[Var], body: Expr) -> None:
        self.params = list(params)
        self.body = body
        self._module: IRModule | None = None

    @staticmethod
    def of(module: IRModule) -> Function:
        """The function ``main`` of a module of Relax."""
        made = Function([], Tuple([]))
        made._module = module
        return made

    @property
    def module(self) -> IRModule:
        """It as ``main`` of a module of Relax; functions that it calls are private."""
        if self._module is None:
            self._module = _built(self)
        return self._module

    def astext(self, show_meta_data: bool = True) -> str:
        """Its text in Relay's syntax."""
        return text_of(self.module)

    def __str__(self) -> str:
        return self.astext()

    __repr__ = __str__


def _built(function: Function) -> IRModule:
    builder = BlockBuilder()
    _add(builder, function, "main", private=False)
    return builder.get()


def _add(builder: BlockBuilder, function: Function, name: str, *, private: bool) -> Any:
    """Write a function to the builder's module; returns its name there."""
    attrs = {"Primitive": 1} if private else {}
    params = [Var(p.name_hint, p.struct_info) for p in function.params]
    known: dict[int, Expr] = {
        id(old): new for old, new in zip(function.params, params, strict=True)
    }
    with builder.function(name, params, attrs=attrs, private=private):
        with builder.dataflow():
            result = builder.emit_output(_value(builder, function.body, known))
        return builder.emit_func_output(result)


def _emitted(builder: BlockBuilder, expr: Expr, known: dict[int, Expr]) -> Expr:
    """``expr`` as an argument, on the builder's variables; each call is bound once."""
    if id(expr) not in known:
        value = _value(builder, expr, known)
        is_call = isinstance(value, (RelaxCall, TupleGetItem))
        known[id(expr)] = builder.emit(value) if is_call else value
    return known[id(expr)]


def _value(builder: BlockBuilder, expr: Expr, known: dict[int, Expr]) -> Expr:
    """``expr`` itself on the builder's variables, its arguments bound."""
    if id(expr) in known:
        return known[id(expr)]
    if isinstance(expr, Tuple):
        return Tuple([_emitted(builder, f, known) for f in expr.fields])
    if isinstance(expr, TupleGetItem):
        return TupleGetItem(_emitted(builder, expr.tuple_value, known), expr.index)
    if isinstance(expr, RelaxCall):
        args = [_emitted(builder, a, known) for a in expr.args]
        callee: Any = expr.op
        if isinstance(callee, Function):
            callee = _add(builder, callee, "fused", private=True)
        return RelaxCall(callee, args, expr.attrs)
    return expr
