"""``RunCodegen``: functions for other compilers become calls of what those make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    Call,
    Constant,
    Expr,
    ExternFunc,
    GlobalVar,
    Op,
    Tuple,
)
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import DeadCodeElimination
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.transform.function_rewriting import add_external_mods
from relax_mlir.rewriting import Pass
from relax_mlir.runtime.registry import get_global_func, register_func

__all__ = ["RunCodegen"]


@dataclass(frozen=True)
class RunCodegen(Pass):
    """Compile the functions that have the attribute ``Codegen``.

    For each value of the attribute, ``name``, the registered function ``relax.ext.name``
    is called with the functions, its options, and names of the constants in them. It
    returns a callable for each, in a list or by ``global_symbol``; the only one may stand
    by itself. Calls of the functions become calls of these, by ``call_dps_packed``: they
    get the arguments and the tensors to write to. The attribute ``external_mods`` of the
    module lists them.

    Args:
        target_options: per ``name``, what its function is told.
        entry_functions: what is called from outside, beside all public functions.

    Raises:
        ValueError: nothing is registered as ``relax.ext.name``.
        PassError: a compiler did not give what is needed.
    """

    target_options: Mapping[str, Mapping[str, Any]] | None = field(
        default=None, metadata={"text": False}
    )
    entry_functions: Sequence[str] | None = None

    def run(self, module: IRModule) -> None:
        groups: dict[str, list[Function]] = {}
        caller = _Caller(module)
        for var, function in module.functions.items():
            if not isinstance(function, Function):
                continue
            if "Codegen" in function.attrs:
                name = str(function.attrs["Codegen"])
                groups.setdefault(name, []).append(function)
                hidden = function.without_attr("global_symbol").without_attr("Codegen")
                caller.builder_.update_func(var, hidden)
            else:
                caller.builder_.update_func(var, caller.visit_expr(function))
        compiled = [self._compile(name, group) for name, group in groups.items()]
        module.become(caller.builder_.get())
        if compiled:
            add_external_mods(module, [[name] for names in compiled for name in names])
        DeadCodeElimination(tuple(self.entry_functions or ())).run(module)

    def _compile(self, name: str, functions: list[Function]) -> list[str]:
        """Let a compiler register what it makes; the names of that."""
        compiler = get_global_func(f"relax.ext.{name}")
        options = dict((self.target_options or {}).get(name, {}))
        result = compiler(functions, options, _constant_names(name, functions))
        symbols = [str(f.attrs["global_symbol"]) for f in functions]
        for symbol, function in _by_symbol(name, symbols, result).items():
            register_func(symbol, function, override=True)
        return symbols


def _by_symbol(
    name: str, symbols: Sequence[str], result: Any
) -> dict[str, Callable[..., Any]]:
    """What a compiler gave, by the symbols of the functions."""
    if isinstance(result, Mapping):
        found = {str(symbol): function for symbol, function in result.items()}
    else:
        made = [result] if callable(result) else list(result)
        found = dict(zip(symbols, made, strict=False))
    missing = [s for s in symbols if not callable(found.get(s))]
    if missing:
        raise PassError(
            f"`relax.ext.{name}`: expected a callable for each function, got none for "
            f"`{missing[0]}`"
        )
    return found


def _constant_names(name: str, functions: Sequence[Function]) -> dict[Constant, str]:
    names: dict[Constant, str] = {}
    for function in functions:
        found = _Constants()
        found.visit_expr(function)
        symbol = function.attrs["global_symbol"]
        for number, constant in enumerate(found.constants):
            names[constant] = f"{symbol}_{name}_const_{number}"
    return names


class _Constants(PyExprVisitor):
    """Collects constants."""

    def __init__(self) -> None:
        self.constants: list[Constant] = []

    def visit_constant_(self, op: Constant) -> None:
        self.constants.append(op)


class _Caller(PyExprMutator):
    """Calls what other compilers make."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def visit_call_(self, op: Call) -> Expr:
        """A call of a function for another compiler, as a call of what that makes."""
        call = super().visit_call_(op)
        if not isinstance(op.op, GlobalVar) or op.op.name_hint not in self.mod:
            return call
        attrs = self.mod[op.op.name_hint].attrs
        if "Codegen" not in attrs or not isinstance(call, Call):
            return call
        callee = ExternFunc(str(attrs["global_symbol"]))
        packed = [callee, Tuple(call.args)]
        return Call(Op.of("relax.call_dps_packed"), packed, None, [op.struct_info])
