"""Syntax-highlighted printing of scripts."""

from typing import Any

from relax_mlir.tvm.script.printer import display, show

__all__ = ["cprint"]


def cprint(
    printable: Any, style: str | None = None, black_format: bool | None = None
) -> None:
    """Prints a script, highlighted if standard output is a terminal or notebook.

    Args:
        printable: a text, or an object that has a script.
        style: the colour scheme: ``light``, ``dark``, ``ansi``, or a Pygments style.
        black_format: ignored: the script is not reformatted.
    """
    if isinstance(printable, str):
        display.show(printable, style=style)
    else:
        show(printable, style)
