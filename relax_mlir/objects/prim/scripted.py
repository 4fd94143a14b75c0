"""Base class of fragments of tensor programs, which print as TVMScript."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.printing import PRINTER

__all__ = ["Scripted", "script_of", "show_of"]


def script_of(value: Any, **options: Any) -> str:
    """The TVMScript of a stand-alone fragment of a tensor program."""
    return PRINTER.get().fragment_script(value, **options)


def show_of(value: Any, **options: Any) -> None:
    """Prints a stand-alone fragment of a tensor program."""
    PRINTER.get().show_fragment(value, **options)


class Scripted:
    """A fragment of a tensor program with a TVMScript form of its own."""

    __slots__ = ()

    def script(self, *args: Any, **options: Any) -> str:
        """Its TVMScript, after declarations of its free variables."""
        return script_of(self, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Prints its TVMScript."""
        show_of(self, **options)
