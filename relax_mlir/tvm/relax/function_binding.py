"""Specialization of Relax functions: bound parameters, bound symbols, inlined calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.free_symbols import defined_symbolic_vars
from relax_mlir.objects.function import FUNCTION_BINDING, Function, FunctionBinding
from relax_mlir.objects.prim import Var
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.passes.bind_params import BindParams
from relax_mlir.tvm.relax.transform.passes.bind_symbolic_vars import BindSymbolicVars
from relax_mlir.tvm.relax.transform.passes.inline_private_functions import inline_named

__all__ = ["bind_params", "bind_symbolic_vars", "inline_functions"]

_NAME = "main"


def bind_params(function: Function, binding_map: Mapping[Any, Any]) -> Function:
    """Bind parameters of a function to arrays or constants.

    Raises:
        PassError: there is no such parameter, or a value does not fit it.
    """
    return _run_pass(function, BindParams(_NAME, binding_map))


def bind_symbolic_vars(function: Function, binding_map: Mapping[Any, Any]) -> Function:
    """Substitute sizes for the symbolic variables of a function.

    Args:
        function: the function.
        binding_map: size by symbolic variable or its name.

    Raises:
        PassError: there is no such symbol, several have the name, one is given twice, or
            a size uses an undefined variable.
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
    return _with_symbol_of(function, BindSymbolicVars(values)(module)[_NAME])


def _symbol(key: str | Var, defined: Sequence[Var]) -> Var:
    """Looks up a symbolic variable by name or by identity."""
    is_name = isinstance(key, str)
    found = [v for v in defined if (v.name == key if is_name else v is key)]
    if len(found) != 1:
        listed = ", ".join(f"`{v.name}`" for v in defined)
        raise PassError(
            f"bind_symbolic_vars: `{key}`: expected one of the symbols {listed}, got "
            f"{'a name of several' if found else 'an unknown symbol'}"
        )
    return found[0]


def inline_functions(
    function: Function, function_map: Mapping[str | GlobalVar, Function]
) -> Function:
    """Inline calls of the given functions.

    Raises:
        PassError: one of them is recursive.
    """
    callees = {getattr(k, "name_hint", k): f for k, f in function_map.items()}
    module = IRModule({_NAME: function, **callees})
    with module.context, ir.Location.unknown():
        inline_named(module, {str(name) for name in callees})
    module.forget_scopes()
    return _with_symbol_of(function, module[_NAME])


def _run_pass(function: Function, pass_: Pass) -> Function:
    return _with_symbol_of(function, pass_(IRModule({_NAME: function}))[_NAME])


def _with_symbol_of(function: Function, rewritten: Any) -> Function:
    """Restores the ``global_symbol`` attribute of the original function."""
    attrs = {k: v for k, v in rewritten.attrs.items() if k != "global_symbol"}
    if "global_symbol" in function.attrs:
        attrs["global_symbol"] = function.attrs["global_symbol"]
    return rewritten.with_only_attrs(attrs)


FUNCTION_BINDING.set(FunctionBinding(bind_params, bind_symbolic_vars, inline_functions))
