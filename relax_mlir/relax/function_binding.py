"""Functions with values in place of parameters, sizes or calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import Var
from relax_mlir.passes.relax.bind_params import BindParams
from relax_mlir.passes.relax.bind_symbolic_vars import BindSymbolicVars
from relax_mlir.passes.relax.inline_private_functions import inline_named
from relax_mlir.relax.analysis.symbols import defined_symbolic_vars
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
    """The function with sizes in place of symbols, which are given by name or as variables.

    Raises:
        PassError: there is no such symbol, several have the name, one is given twice, or
            nothing defines what a size mentions.
    """
    module = IRModule({_NAME: function})
    copied = module[_NAME]
    defined = defined_symbolic_vars(copied)
    values: dict[str, Any] = {}
    for key, size in binding_map.items():
        symbol = copied.scope.symbols.name(_symbol(key, defined))
        if symbol in values:
            raise PassError(f"symbol `{symbol}`: expected one size, got two")
        values[symbol] = size
    return _named_as(function, BindSymbolicVars(values)(module)[_NAME])


def _symbol(key: str | Var, defined: Sequence[Var]) -> Var:
    """The variable of sizes that a name or the variable itself says."""
    is_name = isinstance(key, str)
    found = [v for v in defined if (v.name == key if is_name else v is key)]
    if len(found) != 1:
        listed = ", ".join(f"`{v.name}`" for v in defined)
        raise PassError(
            f"expected one of the function's symbols, which are {listed}: `{key}` is "
            f"{'several' if found else 'none'} of them"
        )
    return found[0]


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
    return made.with_only_attrs(attrs)
