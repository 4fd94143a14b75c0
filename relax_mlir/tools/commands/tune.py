"""Find the fastest configuration of every kernel of a model, on this machine.

Each distinct kernel is compiled in several ways, which are run by themselves in turns. One
wins if it computes what the default does, and is faster by more than noise. What is found
goes to a database, beside what it holds of other kernels; `--tuning` of the other commands
uses it, and so does `relax_mlir.compile(..., tuning=...)`.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from relax_mlir.files import check_writable
from relax_mlir.tools.arguments import (
    add_precision,
    add_shapes,
    add_sizes,
    add_threads,
    add_winograd,
    by_name,
    count,
)
from relax_mlir.tools.models import read_module
from relax_mlir.tools.progress import shown_progress
from relax_mlir.tuning import TRIALS, tune
from relax_mlir.tuning_database import TuningRecord

__all__ = ["add_arguments", "run"]

_WIDTH = 160  # of a table that goes to a file or another program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what it takes."""
    add = parser.add_argument
    add("model", help="an ONNX model, or a module (.mlir)")
    add("-o", dest="database", metavar="DB.json", required=True, help="the database")
    add(
        "--target",
        default="cpu",
        help="what the model is compiled for; it must run here",
    )
    add(
        "--trials",
        type=count,
        default=TRIALS,
        metavar="N",
        help="configurations of a kernel that are measured, its default among them",
    )
    add_sizes(parser, "an open size: n=4; 64 if not given")
    add_precision(parser)
    add_winograd(parser)
    add_threads(parser)
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tune a model and show what was found."""
    check_writable(arguments.database)
    with shown_progress() as progress:
        shapes = by_name("--shape", arguments.shapes)
        found = tune(
            read_module(arguments.model, shapes, progress),
            database=arguments.database,
            target=arguments.target,
            precision=arguments.precision or "f32",
            winograd=arguments.winograd or "auto",
            trials=arguments.trials,
            sizes=by_name("--size", arguments.sizes),
            threads=arguments.threads,
            progress=progress,
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
