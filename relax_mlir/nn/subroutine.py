"""Subroutines: modules whose ``forward`` becomes a separate private function."""

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
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Expr, GlobalVar, Var, convert, is_leaf
from relax_mlir.objects.infer.struct_info import size_vars_in, substitute_info

__all__ = ["SubroutineMixin"]


class SubroutineMixin:
    """Mixin that turns calls of ``forward`` into calls of a private function.

    Attributes:
        define_subroutine: whether to do so. Structurally equal functions are shared.
    """

    define_subroutine: bool = False

    forward: Any  # defined by subclasses

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls.forward = _dispatching(cls.forward)

    def parameters(self) -> Iterator[Parameter]:
        """All parameters in the module."""
        raise NotImplementedError


def _dispatching(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper that calls ``forward``, or the function defined from it."""

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
    """An argument as a tensor or a leaf expression."""
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
    """Define the function; the builder deduplicates equal ones."""
    sizes: dict[prim.Var, prim.PrimExpr] = {}  # symbolic sizes local to the function
    params = {name: _param(name, _expr(v), sizes) for name, v in given.items()}
    inner = [
        Tensor(_expr=param) if isinstance(given[name], Tensor) else param
        for name, param in params.items()
    ]
    outer = [(p, p.as_expr()) for p in module.parameters()]
    weights = [_param(str(expr), expr, sizes) for _, expr in outer]
    for (parameter, _), weight in zip(outer, weights, strict=True):
        parameter.bind(weight)
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
            parameter.bind(expr)
    return function, gives_tensor


def _param(name: str, value: Expr, sizes: dict[prim.Var, prim.PrimExpr]) -> Var:
    for size in size_vars_in(value.struct_info):
        sizes.setdefault(size, prim.Var(size.name, size.dtype))
    return Var(name, substitute_info(value.struct_info, sizes))


def _snake_case(name: str) -> str:
    """Snake case: ``RMSNorm`` as ``rms_norm``."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower()
