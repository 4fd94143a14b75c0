"""Progress bar on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from relax_mlir.pipeline import Progress

__all__ = ["shown_progress"]


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A progress callback that draws a bar on stderr; does nothing without a terminal."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(file=sys.stderr)
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total
        )


def _ignore(what: str, done: int, total: int) -> None:
    """Ignore progress."""
