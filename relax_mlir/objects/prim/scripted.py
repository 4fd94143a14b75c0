"""What can be printed as a script, and what prints it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["Scripted", "register_printer", "script_of", "show_of"]


# How terms, buffers and statements are printed; the module of the printer fills it in.
_PRINTERS: dict[str, Callable[..., Any]] = {}


def _printer(name: str) -> Callable[..., Any]:
    if name not in _PRINTERS:
        importlib.import_module("relax_mlir.script.printer.tir")
    return _PRINTERS[name]


def register_printer(name: str, function: Callable[..., Any]) -> None:
    """Say how parts of tensor programs are printed: ``script`` and ``show``."""
    _PRINTERS[name] = function


def script_of(value: Any, **options: Any) -> str:
    """The script of a part of a tensor program that stands alone."""
    return _printer("script")(value, **options)


def show_of(value: Any, **options: Any) -> None:
    """Print a part of a tensor program that stands alone."""
    _printer("show")(value, **options)


class Scripted:
    """What has a script of its own beside statements."""

    __slots__ = ()

    def script(self, *args: Any, **options: Any) -> str:
        """Its text as a script, after the variables in it."""
        return script_of(self, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Print its text."""
        show_of(self, **options)
