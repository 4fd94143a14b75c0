"""Scripts with colours."""

from typing import Any

from relax_mlir.script.printer import display, show

__all__ = ["cprint"]


def cprint(
    printable: Any, style: str | None = None, black_format: bool | None = None
) -> None:
    """Print a script with colours where the output can show them.

    Args:
        printable: a text, or what has a script.
        style: of the colours: ``light``, ``dark``, ``ansi``, or a name of pygments'.
        black_format: of no effect: it is printed as it is.
    """
    if isinstance(printable, str):
        display.show(printable, style=style)
    else:
        show(printable, style)
