"""Tables of results: for the terminal, as Markdown, or as numbers."""

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
    """The results of one benchmark.

    Attributes:
        title: the title of the table.
        note: an explanation of the measurement.
        columns, rows: the table as text.
        values: the underlying numbers as JSON (hence Any).
        names: the number of leading columns with names, not numbers.
    """

    title: str
    note: str
    columns: Row
    rows: Sequence[Row]
    values: Any
    names: int = 1

    def table(self) -> Table:
        """The table for a terminal."""
        table = Table(title=self.title, caption=self.note, caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number < self.names else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """The table as a Markdown section."""
        numbers = len(self.columns) - self.names
        rule = ("---",) * self.names + ("---:",) * numbers
        lines = [self.columns, rule, *self.rows]
        body = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
        note = textwrap.fill(self.note, _PAGE_WIDTH)
        return f"## {self.title}\n\n{note}\n\n{body}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
