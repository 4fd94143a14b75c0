"""CPU benchmarks: whole models, matmuls, call overhead, threads, startup, memory, deployment.

Every figure is a ratio to a baseline measured in interleaved rounds, or a share of the
processor's peak measured at the same time.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.baselines import DIRECT, F32, OURS
from benchmarks.calls import calls_report
from benchmarks.deployment import deployment_report
from benchmarks.models import matmuls_report, models_report, winograd_report
from benchmarks.networks import network
from benchmarks.page import write_page
from benchmarks.report import Report
from benchmarks.startup import memory_report, startup_report
from benchmarks.threads import threads_report
from relax_mlir.tools.arguments import thread_count
from relax_mlir.tools.timing import ROUNDS

_QUICK_ROUNDS = 3
_BASELINES = tuple(name for name in F32 if name not in (OURS, DIRECT))


def main(arguments: list[str] | None = None) -> None:
    """Run the selected benchmarks, print the results, and write the page."""
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
        write_page(options.page, reports, options.baselines, command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "models", nargs="*", type=_network, help="networks to measure (default: all)"
    )
    parser.add_argument(
        "--tables",
        type=_among(_TABLES),
        metavar="NAME,...",
        help=f"tables to measure: {', '.join(_TABLES)} (default: all)",
    )
    parser.add_argument(
        "--baselines",
        type=_among(_BASELINES),
        default=_BASELINES,
        metavar="NAME,...",
        help=f"baselines to measure: {', '.join(_BASELINES)} (default: all)",
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        default=1,
        metavar="N",
        help="threads for the tables models and matmuls (default: 1)",
    )
    parser.add_argument("--quick", action="store_true", help="run only a few rounds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, help="write the results to this file")
    return parser


def _network(name: str) -> str:
    try:
        return network(name).name
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"no network `{name}`") from error


def _among(known: Iterator[str] | tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Parser of an option value: a comma-separated list of known names."""
    names = tuple(known)

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(filter(None, text.split(",")))
        for name in found:
            if name not in names:
                expected = ", ".join(names)
                raise argparse.ArgumentTypeError(
                    f"`{name}`: expected names from {expected}"
                )
        return found

    return parse


_TABLES = (
    *("models", "matmuls", "winograd", "calls", "threads"),
    *("startup", "memory", "deployment"),
)


def _reports(options: argparse.Namespace) -> Iterator[Report]:
    """The selected tables; by default all, or ``models`` if networks are named."""
    rounds = _QUICK_ROUNDS if options.quick else ROUNDS
    tables = options.tables or (("models",) if options.models else _TABLES)
    baselines, threads = options.baselines, options.threads
    if "models" in tables:
        yield from models_report(options.models, baselines, threads, rounds)
    if "matmuls" in tables:
        yield matmuls_report(baselines, threads, rounds)
    if "winograd" in tables:
        yield winograd_report(baselines, threads, rounds)
    if "calls" in tables:
        yield calls_report(rounds)
    if "threads" in tables:
        yield threads_report(baselines, rounds)
    if "startup" in tables:
        yield startup_report(baselines)
    if "memory" in tables:
        yield memory_report(baselines)
    if "deployment" in tables:
        yield deployment_report()


if __name__ == "__main__":
    main()
