"""``python -m benchmarks``: whole models, products, calls, threads, starts, memory.

Every figure is a ratio to a rival that is measured next to it, in turn, or a share of
what the processor does at that moment.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.calls import calls_report
from benchmarks.models import models_report, products_report, winograd_report
from benchmarks.networks import network
from benchmarks.page import write_page
from benchmarks.report import Report
from benchmarks.rivals import DIRECT, F32, OURS
from benchmarks.startup import memory_report, startup_report
from benchmarks.threads import threads_report
from relax_mlir.tools.arguments import count
from relax_mlir.tools.timing import ROUNDS

_QUICK_ROUNDS = 3
_RIVALS = tuple(name for name in F32 if name not in (OURS, DIRECT))


def main(arguments: list[str] | None = None) -> None:
    """Measure what the command line asks for, print it, and write the page."""
    options = _parser().parse_args(arguments)
    console = Console(width=140)
    reports = []
    for report in _reports(options):
        reports.append(report)
        if not options.json:
            console.print(report.table())
    if options.json:
        values = {report.title: report.values for report in reports}
        print(json.dumps(values, indent=1))
    if options.page:
        command = " ".join(["python -m benchmarks", *(arguments or sys.argv[1:])])
        write_page(options.page, reports, options.rivals, command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "models", nargs="*", type=_network, help="measure only these networks"
    )
    parser.add_argument(
        "--tables",
        type=_among(_TABLES),
        metavar="NAME,...",
        help=f"which of {', '.join(_TABLES)}",
    )
    parser.add_argument(
        "--rivals",
        type=_among(_RIVALS),
        default=_RIVALS,
        metavar="NAME,...",
        help=f"which of {', '.join(_RIVALS)}",
    )
    parser.add_argument(
        "--threads",
        type=count,
        default=1,
        metavar="N",
        help="of models and products; the other tables have their own",
    )
    parser.add_argument("--quick", action="store_true", help="a few rounds only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, help="write the results to this file")
    return parser


def _network(name: str) -> str:
    try:
        return network(name).name
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"no network `{name}`") from error


def _among(known: Iterator[str] | tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """A type of option: names out of a list, with commas between them."""
    names = tuple(known)

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(filter(None, text.split(",")))
        for name in found:
            if name not in names:
                expected = ", ".join(names)
                raise argparse.ArgumentTypeError(
                    f"`{name}`: expected some of {expected}"
                )
        return found

    return parse


_TABLES = ("models", "products", "winograd", "calls", "threads", "startup", "memory")


def _reports(options: argparse.Namespace) -> Iterator[Report]:
    """The tables that are asked for; those of named networks only, if there are any."""
    rounds = _QUICK_ROUNDS if options.quick else ROUNDS
    tables = options.tables or (("models",) if options.models else _TABLES)
    rivals, threads = options.rivals, options.threads
    if "models" in tables:
        yield from models_report(options.models, rivals, threads, rounds)
    if "products" in tables:
        yield products_report(rivals, threads, rounds)
    if "winograd" in tables:
        yield winograd_report(rivals, threads, rounds)
    if "calls" in tables:
        yield calls_report(rounds)
    if "threads" in tables:
        yield threads_report(rivals, rounds)
    if "startup" in tables:
        yield startup_report(rivals)
    if "memory" in tables:
        yield memory_report(rivals)


if __name__ == "__main__":
    main()
