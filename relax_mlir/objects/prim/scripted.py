"""Base class of objects that print as TVMScript, and the registry of printers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["Scripted", "register_printer", "script_of", "show_of"]


# Printers of expressions, buffers and statements; the printer's module registers them.
_PRINTERS: dict[str, Callable[..., Any]] = {}


def _printer(name: str) -> Callable[..., Any]:
    if name not in _PRINTERS:
        importlib.import_module("relax_mlir.tvm.script.printer.tir")
    return _PRINTERS[name]


def register_printer(name: str, function: Callable[..., Any]) -> None:
    """Registers a printer of fragments of tensor programs: ``script`` or ``show``."""
    _PRINTERS[name] = function


def script_of(value: Any, **options: Any) -> str:
    """The TVMScript of a stand-alone fragment of a tensor program."""
    return _printer("script")(value, **options)


def show_of(value: Any, **options: Any) -> None:
    """Prints a stand-alone fragment of a tensor program."""
    _printer("show")(value, **options)


class Scripted:
    """A fragment of a tensor program with a TVMScript form of its own."""

    __slots__ = ()

    def script(self, *args: Any, **options: Any) -> str:
        """Its TVMScript, after declarations of its free variables."""
        return script_of(self, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Prints its TVMScript."""
        show_of(self, **options)
