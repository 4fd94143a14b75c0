"""Base class of objects that print as scripts."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Printed", "html", "script", "show", "text"]


def _printer() -> Any:  # Any: a module
    """The printer module, imported late because it depends on this one."""
    return importlib.import_module("relax_mlir.tvm.script.printer")


def script(value: Any, *args: Any, **options: Any) -> str:
    """The TVMScript of a value."""
    return _printer().script(value, *args, **options)


def show(value: Any, *args: Any, **options: Any) -> None:
    """Prints the TVMScript of a value."""
    _printer().show(value, *args, **options)


def html(value: Any) -> str:
    """The TVMScript of a value as HTML."""
    return _printer().html(value)


def text(value: Any) -> str:
    """The debugging text of a value; see :func:`relax_mlir.tvm.script.printer.text`."""
    return _printer().text(value)


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
