"""Python values as expressions: one by one, or all arguments of a function.

`args_converter` decorates functions that take expressions, so that their callers may
pass numbers, strings, tuples and sizes::

    @args_converter.to_expr("x", "more")
    def together(x: Expr, *more: Expr) -> Expr: ...

    @args_converter.auto  # by the annotations: Expr, list[Expr], either optional
    def together(x: Expr, *more: Expr) -> Expr: ...
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union

from relax_mlir.errors import shown
from relax_mlir.objects.expr import Expr, convert
from relax_mlir.objects.function import Function
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.te.call_te import gen_call_tir_inputs

__all__ = [
    "args_converter",
    "convert_to_expr",
    "copy_with_new_vars",
    "gen_call_tir_inputs",
]

F = TypeVar("F", bound=Callable[..., Any])
Converter = Callable[[Any], Any]  # Any: what a caller may pass, what the function takes


def convert_to_expr(value: Any) -> Expr:  # Any: it is checked
    """A Python value as an expression: a number, a string, a tuple or a list of such.

    Raises:
        TypeError: it cannot be one.
    """
    return convert(value)


def copy_with_new_vars(func: Function) -> Function:
    """The same function, alone in a module, with variables and sizes of its own."""
    made: Function = func.copy()
    made.module.set_scope(made.name, FunctionScope())
    return made


class _ArgsConverter:
    """Decorators that make expressions of the arguments of a function."""

    def to_expr(self, *names: str) -> Callable[[F], F]:
        """The parameters ``names`` take what may be an expression, or None.

        Of ``*args`` and ``**kwargs`` each one is converted.
        """
        return lambda func: _converting(func, dict.fromkeys(names, _one))

    def to_list_expr(self, *names: str) -> Callable[[F], F]:
        """The parameters ``names`` take lists of what may be expressions, or None."""
        return lambda func: _converting(func, dict.fromkeys(names, _several))

    def auto(self, func: F) -> F:
        """What is annotated as ``Expr`` or ``list[Expr]``, or either or None, is converted."""
        hints = typing.get_type_hints(func)
        found = {name: _converter_of(hint) for name, hint in hints.items()}
        found.pop("return", None)
        return _converting(func, {n: c for n, c in found.items() if c is not None})


args_converter = _ArgsConverter()


def _one(value: Any) -> Expr | None:  # Any: it is checked
    return None if value is None else convert(value)


def _several(value: Any) -> list[Expr] | None:  # Any: it is checked
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list of expressions, got {shown(value)}")
    return [convert(v) for v in value]


def _converter_of(hint: Any) -> Converter | None:  # Any: an annotation
    """How an argument with an annotation is converted, None where it stays."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        others = [a for a in typing.get_args(hint) if a is not type(None)]
        return _converter_of(others[0]) if len(others) == 1 else None
    if typing.get_origin(hint) is list:
        return _several if typing.get_args(hint) == (Expr,) else None
    return _one if hint is Expr else None


def _converting(func: F, converters: Mapping[str, Converter]) -> F:
    """``func``, of which some parameters convert what they are given.

    Raises:
        ValueError: it has no parameter of such a name.
    """
    signature = inspect.signature(func)
    unknown = sorted(set(converters) - set(signature.parameters))
    if unknown:
        raise ValueError(
            f"`{func.__name__}`: expected names of its parameters "
            f"{list(signature.parameters)}, got {unknown}"
        )

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:  # Any: those of `func`
        bound = signature.bind(*args, **kwargs)
        for name in bound.arguments.keys() & converters.keys():
            kind, given = signature.parameters[name].kind, bound.arguments[name]
            try:
                bound.arguments[name] = _converted(kind, given, converters[name])
            except TypeError as error:
                raise TypeError(f"`{func.__name__}`: `{name}`: {error}") from None
        return func(*bound.args, **bound.kwargs)

    return typing.cast(F, called)


def _converted(kind: Any, given: Any, one: Converter) -> Any:  # Any: see `Converter`
    """What a parameter of a kind is given, each part of it converted."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(map(one, given))
    if kind is inspect.Parameter.VAR_KEYWORD:
        return {name: one(value) for name, value in given.items()}
    return one(given)
