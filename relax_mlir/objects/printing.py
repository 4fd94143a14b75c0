"""How objects print themselves as scripts."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Printed", "html", "script", "show", "text"]


def _printer() -> Any:  # Any: a module
    """What spells scripts; it stands above the objects and is loaded when it is used."""
    return importlib.import_module("relax_mlir.script.printer")


def script(value: Any, *args: Any, **options: Any) -> str:
    """``value`` as a script."""
    return _printer().script(value, *args, **options)


def show(value: Any, *args: Any, **options: Any) -> None:
    """Print ``value`` as a script."""
    _printer().show(value, *args, **options)


def html(value: Any) -> str:
    """``value`` as a script on a page."""
    return _printer().html(value)


def text(value: Any) -> str:
    """``value`` as who debugs wants to see it; see :func:`..script.printer.text`."""
    return _printer().text(value)


class Printed:
    """What has a script."""

    def script(self, *args: Any, **options: Any) -> str:
        """Its text as a script.

        Args:
            args, options: ``name`` of a module, ``show_meta`` for the elements of arrays,
                ``module_alias``, ``show_all_struct_info``, ``syntax_sugar``; see
                :mod:`relax_mlir.script.printer`.
        """
        return script(self, *args, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Print its text, with colours where the output has them.

        Args:
            args, options: ``style`` (``light``, ``dark``, ``ansi``, or ``mlir`` for the
                MLIR), and those of ``script``.
        """
        show(self, *args, **options)

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        """Its text in a notebook."""
        return html(self)
