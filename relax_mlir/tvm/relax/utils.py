"""Conversion of Python values to Relax expressions.

`args_converter` has decorators for functions that take expressions; they convert
arguments that are numbers, strings, tuples or sizes::

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

from relax_mlir.errors import short_repr
from relax_mlir.objects.expr import Expr, convert
from relax_mlir.objects.function import Function
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.tvm.te.call_te import gen_call_tir_inputs

__all__ = [
    "args_converter",
    "convert_to_expr",
    "copy_with_new_vars",
    "gen_call_tir_inputs",
]

F = TypeVar("F", bound=Callable[..., Any])
Converter = Callable[[Any], Any]  # Any: what a caller may pass, what the function takes


def convert_to_expr(value: Any) -> Expr:  # Any: it is checked
    """Convert a number, a string, or a tuple or list of these to an expression.

    Raises:
        TypeError: the value cannot be converted.
    """
    return convert(value)


def copy_with_new_vars(func: Function) -> Function:
    """Copy a function to a module of its own, with fresh Relax and symbolic variables."""
    copy: Function = func.copy()
    copy.module.set_scope(copy.name, FunctionScope())
    return copy


class _ArgsConverter:
    """Decorators that convert arguments of a function to expressions."""

    def to_expr(self, *names: str) -> Callable[[F], F]:
        """Convert the arguments of the parameters ``names`` to expressions, except None.

        For ``*args`` and ``**kwargs`` every element is converted.
        """
        return lambda func: _converting(func, dict.fromkeys(names, _to_expr))

    def to_list_expr(self, *names: str) -> Callable[[F], F]:
        """Convert the arguments of ``names`` to lists of expressions, except None."""
        return lambda func: _converting(func, dict.fromkeys(names, _to_exprs))

    def auto(self, func: F) -> F:
        """Convert arguments by annotation: ``Expr``, ``list[Expr]``, either optional."""
        hints = typing.get_type_hints(func)
        converters = {name: _converter_of(hint) for name, hint in hints.items()}
        converters.pop("return", None)
        return _converting(func, {n: c for n, c in converters.items() if c is not None})


args_converter = _ArgsConverter()


def _to_expr(value: Any) -> Expr | None:  # Any: it is checked
    return None if value is None else convert(value)


def _to_exprs(value: Any) -> list[Expr] | None:  # Any: it is checked
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list of expressions, got {short_repr(value)}")
    return [convert(v) for v in value]


def _converter_of(hint: Any) -> Converter | None:  # Any: an annotation
    """The converter for an annotation; None if the argument is not converted."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        others = [a for a in typing.get_args(hint) if a is not type(None)]
        return _converter_of(others[0]) if len(others) == 1 else None
    if typing.get_origin(hint) is list:
        return _to_exprs if typing.get_args(hint) == (Expr,) else None
    return _to_expr if hint is Expr else None


def _converting(func: F, converters: Mapping[str, Converter]) -> F:
    """Wraps ``func`` so that arguments of some parameters are converted.

    Raises:
        ValueError: ``func`` has no parameter of such a name.
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
            kind, argument = signature.parameters[name].kind, bound.arguments[name]
            try:
                bound.arguments[name] = _converted(kind, argument, converters[name])
            except TypeError as error:
                raise TypeError(f"`{func.__name__}`: `{name}`: {error}") from None
        return func(*bound.args, **bound.kwargs)

    return typing.cast(F, called)


def _converted(kind: Any, argument: Any, convert_one: Converter) -> Any:
    """Converts the argument of a parameter, element by element for variadic ones."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(map(convert_one, argument))
    if kind is inspect.Parameter.VAR_KEYWORD:
        return {name: convert_one(value) for name, value in argument.items()}
    return convert_one(argument)
