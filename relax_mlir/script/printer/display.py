"""Scripts shown to a reader: with colours in a terminal, as a page in a notebook."""

from __future__ import annotations

from rich.console import Console
from rich.syntax import Syntax

__all__ = ["html", "show"]

_DEFAULT = "ansi_dark"


def show(text: str, *, style: str | None = None, language: str = "python") -> None:
    """Print a text, highlighted where the output can be.

    Args:
        text: the text.
        style: of the colours: ``light``, ``dark``, ``ansi``, or a name of pygments'.
        language: what the text is written in.
    """
    console = Console(soft_wrap=True)
    if not (console.is_terminal or console.is_jupyter):
        print(text)
        return
    console.print(Syntax(text, language, theme=_theme(style), word_wrap=False))


def _theme(style: str | None) -> str:
    named = {"light": "ansi_light", "dark": "monokai", "ansi": "ansi_dark"}
    return named.get(style or "", style or _DEFAULT)


def html(text: str, language: str = "python") -> str:
    """A text as a highlighted part of a page, every line whole."""
    width = max(map(len, text.splitlines()), default=0) + 1
    console = Console(record=True, file=_Nowhere(), width=width)  # pyright: ignore[reportArgumentType]
    console.print(Syntax(text, language, theme="default"))
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


class _Nowhere:
    """A file that drops what is written to it."""

    def write(self, text: str) -> int:
        """Drop it."""
        return len(text)

    def flush(self) -> None:
        """There is nothing to do."""
