"""Functions with values in place of parameters, sizes or calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.bind_params import BindParams
from relax_mlir.passes.relax.bind_symbolic_vars import BindSymbolicVars
from relax_mlir.passes.relax.inline_private_functions import inline_named
from relax_mlir.rewriting import Pass

__all__ = ["bind_params", "bind_symbolic_vars", "inline_functions"]

_NAME = "main"


def bind_params(function: Function, binding_map: Mapping[Any, Any]) -> Function:
    """The function with arrays or constants in place of parameters.

    Raises:
        PassError: there is no such parameter, or a value does not fit it.
    """
    return _changed(function, BindParams(_NAME, binding_map))


def bind_symbolic_vars(function: Function, binding_map: Mapping[Any, Any]) -> Function:
    """The function with sizes in place of symbols.

    Raises:
        PassError: there is no such symbol, or nothing defines what a size mentions.
    """
    return _changed(function, BindSymbolicVars(binding_map))


def inline_functions(
    function: Function, function_map: Mapping[str | GlobalVar, Function]
) -> Function:
    """The function with others in place of calls of them.

    Raises:
        PassError: one of them calls itself.
    """
    others = {getattr(k, "name_hint", k): f for k, f in function_map.items()}
    module = IRModule({_NAME: function, **others})
    with module.context, ir.Location.unknown():
        inline_named(module, {str(name) for name in others})
    module.forget_scopes()
    return _named_as(function, module[_NAME])


def _changed(function: Function, change: Pass) -> Function:
    return _named_as(function, change(IRModule({_NAME: function}))[_NAME])


def _named_as(function: Function, made: Any) -> Function:
    attrs = {k: v for k, v in made.attrs.items() if k != "global_symbol"}
    if "global_symbol" in function.attrs:
        attrs["global_symbol"] = function.attrs["global_symbol"]
    return made.with_attrs(attrs)
