"""Hooks: what modules of higher layers plug into lower ones, which do not import them.

A lower layer declares a :class:`Hook` and uses its value; the module of a higher layer that
provides the value sets it when imported. The tables here are the only list of such modules. A
value that is not set yet is loaded from there, so nothing depends on the order of imports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Generic, TypeVar

from relax_mlir.errors import without_compiler

__all__ = ["PASS_PACKAGES", "Hook", "load_function"]

_T = TypeVar("_T")

# The module that sets each hook.
_PROVIDERS: Mapping[str, str] = {
    # TVMScript and the passes that bind parameters are TVM's.
    "objects.printer": "relax_mlir.tvm.script.printer",
    "objects.function_binding": "relax_mlir.tvm.relax.function_binding",
    # Programs of torch, where it is installed.
    "compiler.torch_importer": "relax_mlir.frontends.torch.importer",
    # Compiling for the sizes of a call needs the compiler.
    "runtime.respecialize": "relax_mlir.compiler.host.respecialize",
    # Models that were compiled in this process are linked when they are saved.
    "runtime.link": "relax_mlir.codegen.linker",
}
# The module that registers each global function that compiled code calls by name.
_FUNCTIONS: Mapping[str, str] = {
    "relax.ext.cublas": "relax_mlir.tvm.relax.backend.cuda.cublas",
    "relax.ext.cudnn": "relax_mlir.tvm.relax.backend.cuda.cudnn",
    "relax_mlir.run_node": "relax_mlir.compiler.host",
    "relax_mlir.run_stage": "relax_mlir.compiler.host",
}
# Packages of passes beside `relax_mlir.passes`, by level, in lookup order.
PASS_PACKAGES: Mapping[str, Sequence[str]] = {
    "relax": (
        "relax_mlir.tvm.relax.transform",
        "relax_mlir.tvm.relax.transform.passes",
    ),
}


class Hook(Generic[_T]):
    """A value that a module of a higher layer provides.

    Args:
        name: its name in the table of providers: the lower package, and what is provided.
    """

    def __init__(self, name: str) -> None:
        self._name, self._provider = name, _PROVIDERS[name]
        self._value: _T | None = None

    def set(self, value: _T) -> None:
        """Provide the value, in place of an earlier one."""
        self._value = value

    def get(self) -> _T:
        """The value; imports its provider if that has not been imported.

        Raises:
            ImportError: the provider is not installed, or does not set the hook.
        """
        if self._value is None:
            try:
                import_module(self._provider)
            except ModuleNotFoundError as error:
                raise without_compiler(f"`{self._name}`", error) from error
        if self._value is None:
            raise ImportError(f"`{self._provider}` is not imported completely")
        return self._value


def load_function(name: str) -> None:
    """Import the module that registers a global function, if one of the package does.

    Raises:
        ImportError: the module is not installed.
    """
    if name not in _FUNCTIONS:
        return
    try:
        import_module(_FUNCTIONS[name])
    except ModuleNotFoundError as error:
        raise without_compiler(f"`{name}`", error) from error
