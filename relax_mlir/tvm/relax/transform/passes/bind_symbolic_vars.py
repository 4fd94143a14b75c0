"""``relax-bind-symbolic-vars``: binds symbolic sizes to values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlir.dialects import func

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.rewrite.functions import graph_functions, substitute_sizes, symbols_in
from relax_mlir.rewrite.patterns import Pass

__all__ = ["BindSymbolicVars"]


@dataclass(frozen=True)
class BindSymbolicVars(Pass):
    """Substitutes sizes for symbols.

    Args:
        binding_map: a size per symbol, given by name or as its variable.
        func_name: the function; all by default.
    """

    binding_map: Mapping[Any, Any] = field(
        metadata={"text": False}, default_factory=dict
    )
    func_name: str | None = None

    def run(self, module: IRModule) -> None:
        functions = graph_functions(module)
        if self.func_name is not None:
            functions = [f for f in functions if f.name.value == self.func_name]
            if not functions:
                raise PassError(f"module has no graph function `{self.func_name}`")
        used: set[str] = set()
        for function in functions:
            used |= self._bind(function)
        for name in map(_name, self.binding_map):
            if name not in used:
                raise PassError(f"no function has the symbol `{name}`")

    def _bind(self, function: func.FuncOp) -> set[str]:
        param_symbols = symbols_in(a.type for a in function.entry_block.arguments)
        values: dict[str, Dim] = {}
        names = Symbols()
        for key, size in self.binding_map.items():
            name = _name(key)
            if name in values:
                raise PassError(f"symbol `{name}`: expected one size, got two")
            if name in param_symbols:
                values[name] = names.dim(prim.convert(size))
        substitute_sizes(function, values)
        defined = symbols_in(a.type for a in function.entry_block.arguments)
        for name, size in values.items():
            for symbol in shapes.symbols_of(size):
                if symbol not in defined or not _is_defined(symbol, function):
                    raise PassError(
                        f"symbol `{name}`: undefined symbol `{symbol}` in its size `{size}`"
                    )
        return set(values)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else key.name


def _is_defined(symbol: str, function: func.FuncOp) -> bool:
    """Returns whether the type of a parameter has the symbol as a dimension."""
    return any(
        f'"{symbol}"' in str(argument.type)
        for argument in function.entry_block.arguments
    )
