"""Syntax highlighting of scripts for terminals and notebooks."""

from __future__ import annotations

from rich.console import Console
from rich.syntax import Syntax

__all__ = ["html", "show"]

_DEFAULT = "ansi_dark"


def show(text: str, *, style: str | None = None, language: str = "python") -> None:
    """Prints a text, highlighted if standard output is a terminal or notebook.

    Args:
        text: the text.
        style: the colour scheme: ``light``, ``dark``, ``ansi``, or a Pygments style.
        language: the language of the text, a Pygments lexer.
    """
    console = Console(soft_wrap=True)
    if not (console.is_terminal or console.is_jupyter):
        print(text)
        return
    console.print(Syntax(text, language, theme=_theme(style), word_wrap=False))


def _theme(style: str | None) -> str:
    themes = {"light": "ansi_light", "dark": "monokai", "ansi": "ansi_dark"}
    return themes.get(style or "", style or _DEFAULT)


def html(text: str, language: str = "python") -> str:
    """Returns a text as a highlighted HTML fragment, without line wrapping."""
    width = max(map(len, text.splitlines()), default=0) + 1
    console = Console(record=True, file=_NullFile(), width=width)  # pyright: ignore[reportArgumentType]
    console.print(Syntax(text, language, theme="default"))
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


class _NullFile:
    """A file object that discards its output."""

    def write(self, text: str) -> int:
        """Discards the text."""
        return len(text)

    def flush(self) -> None:
        """Does nothing."""
