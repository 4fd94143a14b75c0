"""A table of results: shown, written as Markdown, or kept as numbers."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

__all__ = ["Report", "Row"]

_PAGE_WIDTH = 128

Row = tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What one part of the benchmarks found.

    Attributes:
        title: of the table.
        note: what was measured, and how to read it.
        columns, rows: as text.
        values: the numbers behind it, as JSON has them (hence Any).
        names: how many columns say what the others are about.
    """

    title: str
    note: str
    columns: Row
    rows: Sequence[Row]
    values: Any
    names: int = 1

    def table(self) -> Table:
        """For a terminal."""
        table = Table(title=self.title, caption=self.note, caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number < self.names else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """For a page, as a section."""
        numbers = len(self.columns) - self.names
        rule = ("---",) * self.names + ("---:",) * numbers
        lines = [self.columns, rule, *self.rows]
        body = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
        note = textwrap.fill(self.note, _PAGE_WIDTH)
        return f"## {self.title}\n\n{note}\n\n{body}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
