"""Auto-tune the kernels of a model on this machine.

Each distinct kernel is compiled in several configurations, which are measured interleaved.
One wins if it computes the same as the default and is faster by more than noise. The
results are added to a database; `--tuning` of the other commands uses it, and so does
`relax_mlir.compile(..., tuning=...)`.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from relax_mlir.compiler.tuning.database import TuningRecord
from relax_mlir.compiler.tuning.search import TRIALS, tune
from relax_mlir.support.files import check_writable
from relax_mlir.tools.arguments import (
    add_compile_options,
    add_shapes,
    add_sizes,
    compile_options,
    thread_count,
    values_by_name,
)
from relax_mlir.tools.models import read_module
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]

_WIDTH = 160  # of tables, if the output is not a terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("model", help="an ONNX model, or a module (.mlir)")
    add("-o", dest="database", metavar="DB.json", required=True, help="the database")
    add(
        "--trials",
        type=thread_count,
        default=TRIALS,
        metavar="N",
        help="number of configurations per kernel to measure, including the default",
    )
    add_sizes(parser, "a symbolic size: n=4 (default: 64)")
    add_compile_options(parser, "target", "precision", "winograd", "threads")
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tune a model and print the results."""
    check_writable(arguments.database)
    with shown_progress() as progress:
        shapes = values_by_name("--shape", arguments.shapes)
        found = tune(
            read_module(arguments.model, shapes, progress),
            database=arguments.database,
            trials=arguments.trials,
            sizes=values_by_name("--size", arguments.sizes),
            progress=progress,
            **compile_options(arguments),
        )
    console = Console(
        width=None if sys.stdout.isatty() else _WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )
    records = sorted(found.found, key=lambda r: -r.default_time_us)
    console.print(_table(records))
    return 0


def _table(records: Sequence[TuningRecord]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("kernel", "configuration"):
        table.add_column(title, overflow="fold")
    for title in ("trials", "default us", "us", "speedup"):
        table.add_column(title, justify="right", no_wrap=True)
    for record in records:
        table.add_row(
            record.name,
            record.configuration or record.default,
            str(record.trials),
            f"{record.default_time_us:.2f}",
            f"{record.time_us:.2f}",
            f"{record.speedup:.2f}",
        )
    return table
