"""Modules whose ``forward`` becomes a function of its own in the graph."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from relax_mlir.errors import ArgumentTypeError
from relax_mlir.nn.tensor import Parameter, Tensor, current_builder
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, GlobalVar, Var, convert, is_leaf
from relax_mlir.objects.infer import substitute_info, variables_in
from relax_mlir.relax.block_builder import BlockBuilder

__all__ = ["SubroutineMixin"]


class SubroutineMixin:
    """What a module needs so that its ``forward`` can be a private function.

    Attributes:
        define_subroutine: whether a call of ``forward`` is a call of such a function. One
            function serves all calls that compute the same.
    """

    define_subroutine: bool = False

    forward: Any  # what it computes; a subclass has it

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls.forward = _dispatching(cls.forward)

    def parameters(self) -> Iterator[Parameter]:
        """All parameters in it."""
        raise NotImplementedError


def _dispatching(forward: Callable[..., Any]) -> Callable[..., Any]:
    """``forward``, or a call of the function that it becomes."""

    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def dispatch(self: SubroutineMixin, *args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(f"{forward.__qualname__}: {error}") from None
        if not self.define_subroutine:
            return forward(self, *args, **kwargs)
        return _call(self, forward, args, kwargs)

    return dispatch


def _call(
    module: SubroutineMixin,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    builder = current_builder()
    bound = inspect.signature(forward).bind(module, *args, **kwargs).arguments
    (_, *named) = bound.items()
    given = {name: _argument(builder, value) for name, value in named}
    function, gives_tensor = _define(module, forward, given, builder)
    values = [_expr(v) for v in (*given.values(), *module.parameters())]
    result = function(*values)
    if not gives_tensor:
        return result
    return Tensor(_expr=builder.emit(result, f"{function.name_hint}_output"))


def _argument(builder: BlockBuilder, value: Any) -> Any:
    """An argument of which all is known."""
    if isinstance(value, Tensor):
        return value
    expr = convert(value)
    return expr if is_leaf(expr) else builder.emit(expr)


def _expr(value: Any) -> Expr:
    return value.as_expr() if isinstance(value, Tensor) else value


def _define(
    module: SubroutineMixin,
    forward: Callable[..., Any],
    given: dict[str, Any],
    builder: BlockBuilder,
) -> tuple[GlobalVar, bool]:
    """Make the function; the builder knows if there is one that is the same."""
    sizes: dict[prim.Var, prim.PrimExpr] = {}  # those of a function are its own
    params = {name: _param(name, _expr(v), sizes) for name, v in given.items()}
    inner = [
        Tensor(_expr=param) if isinstance(given[name], Tensor) else param
        for name, param in params.items()
    ]
    outer = [(p, p.as_expr()) for p in module.parameters()]
    weights = [_param(str(expr), expr, sizes) for _, expr in outer]
    for (parameter, _), weight in zip(outer, weights, strict=True):
        parameter.stand_for(weight)
    is_dataflow = builder.current_block_is_dataflow()
    name = _snake_case(type(module).__name__)
    try:
        with builder.function(name, [*params.values(), *weights], private=True):
            with builder.dataflow() if is_dataflow else nullcontext():
                out = forward(module, *inner)
                gives_tensor = isinstance(out, Tensor)
                result = _expr(out)
                if is_dataflow:
                    result = builder.emit_output(result)
            function = builder.emit_func_output(result)
    finally:
        for parameter, expr in outer:
            parameter.stand_for(expr)
    return function, gives_tensor


def _param(name: str, value: Expr, sizes: dict[prim.Var, prim.PrimExpr]) -> Var:
    for size in variables_in(value.struct_info):
        sizes.setdefault(size, prim.Var(size.name, size.dtype))
    return Var(name, substitute_info(value.struct_info, sizes))


def _snake_case(name: str) -> str:
    """``RMSNorm`` as ``rms_norm``."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower()
