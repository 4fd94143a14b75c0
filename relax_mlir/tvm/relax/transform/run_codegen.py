"""``RunCodegen``: compiles functions with external code generators (BYOC)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Call,
    Constant,
    Expr,
    ExternFunc,
    GlobalVar,
    Op,
    Tuple,
)
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import DeadCodeElimination
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.runtime.registry import get_global_func, register_func
from relax_mlir.tvm.relax.transform.function_rewriting import add_external_mods

__all__ = ["RunCodegen"]


@dataclass(frozen=True)
class RunCodegen(Pass):
    """Compiles the functions that have the attribute ``Codegen`` externally.

    For each value ``name`` of the attribute, the registered function ``relax.ext.name`` is
    called with the functions, its options, and names of the constants in them. It returns a
    callable per function, as a list or a dictionary by ``global_symbol``; a single one may
    be returned by itself. Calls of the functions become ``call_dps_packed`` of these, with
    the arguments and the output tensors. The attribute ``external_mods`` of the module
    lists them.

    Args:
        target_options: the options of each code generator, by ``name``.
        entry_functions: entry points, in addition to all public functions.

    Raises:
        ValueError: no function is registered as ``relax.ext.name``.
        PassError: a code generator returned no callable for a function.
    """

    target_options: Mapping[str, Mapping[str, Any]] | None = field(
        default=None, metadata={"text": False}
    )
    entry_functions: Sequence[str] | None = None

    def run(self, module: IRModule) -> None:
        groups: dict[str, list[Function]] = {}
        caller = _ExternalCallMutator(module)
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
        module.replace_contents(caller.builder_.get())
        if compiled:
            add_external_mods(module, [[name] for names in compiled for name in names])
        DeadCodeElimination(tuple(self.entry_functions or ())).run(module)

    def _compile(self, name: str, functions: list[Function]) -> list[str]:
        """Runs a code generator and registers its results; returns their names."""
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
    """Returns the results of a code generator by the functions' symbols."""
    if isinstance(result, Mapping):
        callables = {str(symbol): function for symbol, function in result.items()}
    else:
        listed = [result] if callable(result) else list(result)
        callables = dict(zip(symbols, listed, strict=False))
    missing = [s for s in symbols if not callable(callables.get(s))]
    if missing:
        raise PassError(
            f"`relax.ext.{name}`: expected a callable for each function, got none for "
            f"`{missing[0]}`"
        )
    return callables


def _constant_names(name: str, functions: Sequence[Function]) -> dict[Constant, str]:
    names: dict[Constant, str] = {}
    for function in functions:
        collector = _ConstantCollector()
        collector.visit_expr(function)
        symbol = function.attrs["global_symbol"]
        for index, constant in enumerate(collector.constants):
            names[constant] = f"{symbol}_{name}_const_{index}"
    return names


class _ConstantCollector(PyExprVisitor):
    """Collects the constants of a function."""

    def __init__(self) -> None:
        self.constants: list[Constant] = []

    def visit_constant_(self, op: Constant) -> None:
        self.constants.append(op)


class _ExternalCallMutator(PyExprMutator):
    """Replaces calls of external functions."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def visit_call_(self, op: Call) -> Expr:
        """Replaces the call of a function with the attribute ``Codegen``."""
        call = super().visit_call_(op)
        if not isinstance(op.op, GlobalVar) or op.op.name_hint not in self.mod:
            return call
        attrs = self.mod[op.op.name_hint].attrs
        if "Codegen" not in attrs or not isinstance(call, Call):
            return call
        callee = ExternFunc(str(attrs["global_symbol"]))
        packed = [callee, Tuple(call.args)]
        return Call(Op.of("relax.call_dps_packed"), packed, None, [op.struct_info])
