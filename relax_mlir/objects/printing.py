"""Base class of objects that print as scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relax_mlir.support.hooks import Hook

__all__ = ["PRINTER", "Printed", "Printer", "html", "script", "show", "text"]


@dataclass(frozen=True)
class Printer:
    """The functions of :mod:`relax_mlir.tvm.script.printer`.

    Attributes:
        script, show, html, text: of modules, functions, expressions and struct info.
        fragment_script, show_fragment: of expressions, buffers and statements of TIR.
    """

    script: Callable[..., str]
    show: Callable[..., None]
    html: Callable[[Any], str]
    text: Callable[[Any], str]
    fragment_script: Callable[..., str]
    show_fragment: Callable[..., None]


PRINTER: Hook[Printer] = Hook("objects.printer")


def script(value: Any, *args: Any, **options: Any) -> str:
    """The TVMScript of a value."""
    return PRINTER.get().script(value, *args, **options)


def show(value: Any, *args: Any, **options: Any) -> None:
    """Prints the TVMScript of a value."""
    PRINTER.get().show(value, *args, **options)


def html(value: Any) -> str:
    """The TVMScript of a value as HTML."""
    return PRINTER.get().html(value)


def text(value: Any) -> str:
    """The debugging text of a value; see :func:`relax_mlir.tvm.script.printer.text`."""
    return PRINTER.get().text(value)


class Printed:
    """An object with a TVMScript form."""

    def script(self, *args: Any, **options: Any) -> str:
        """Its TVMScript.

        Args:
            args, options: ``name`` of a module, ``show_meta`` to print constants in full,
                ``module_alias``, ``show_all_struct_info``, ``syntax_sugar``; see
                :mod:`relax_mlir.tvm.script.printer`.
        """
        return script(self, *args, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Prints its TVMScript, in colour if the output supports it.

        Args:
            args, options: ``style`` (``light``, ``dark``, ``ansi``, or ``mlir`` for the MLIR),
                and the options of ``script``.
        """
        show(self, *args, **options)

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        """Its HTML representation in notebooks."""
        return html(self)
