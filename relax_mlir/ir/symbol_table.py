"""Symbol names of a module, for generating fresh ones."""

from relax_mlir.ir.module import IRModule

__all__ = ["SymbolTable"]


class SymbolTable:
    """The names taken in a module; built once per pass, because a lookup in MLIR is O(module)."""

    def __init__(self, module: IRModule) -> None:
        self._taken = {f.name.value for f in module.func_ops()}

    def unique(self, name: str) -> str:
        """Returns ``name``, ``name1``, ``name2``, ..., the first that is free, and reserves it."""
        candidate, count = name, 0
        while candidate in self._taken:
            count += 1
            candidate = f"{name}{count}"
        self._taken.add(candidate)
        return candidate
