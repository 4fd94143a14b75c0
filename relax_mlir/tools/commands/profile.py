"""Profile a model by kernel.

The runs of a kernel are summed, the slowest first; `--in-order` lists every run in program
order. Times are medians over calls. A kernel is a PrimFunc, under its name in
`relax-mlir compile --dump`; the rule is the schedule rule that lowered it. GFLOP/s are
given for matmuls and convolutions of static shapes. One line sums up the rest: call
overhead, external functions, inputs and outputs.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.table import Table

from relax_mlir.errors import RelaxError
from relax_mlir.runtime.executable import CompiledModel
from relax_mlir.runtime.profile import KernelTime, Profile
from relax_mlir.tools.arguments import (
    add_compile_options,
    add_public_key,
    add_random_inputs,
    compile_options,
    thread_count,
    values_by_name,
)
from relax_mlir.tools.arrays import gather_inputs
from relax_mlir.tools.models import CallError, open_model
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]

_CALLS = 20
_WIDTH = 160  # of tables, if the output is not a terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", help="a model: .onnx, .mlir or .rxm")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--in-order", action="store_true", help="list every run of a kernel"
    )
    parser.add_argument(
        "--calls",
        type=thread_count,
        default=_CALLS,
        metavar="N",
        help="number of calls of the model",
    )
    add_public_key(parser)
    add_compile_options(parser, "precision", "winograd", "checks", "threads", "tuning")
    parser.set_defaults(threads=1)  # also of a .rxm
    add_random_inputs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile a model, run it and show its kernels."""
    sizes = values_by_name("--size", arguments.sizes)
    with shown_progress() as progress:
        model = open_model(
            arguments.model,
            progress=progress,
            public_key=arguments.public_key,
            **compile_options(arguments),
        )
    inputs = gather_inputs(model.signature, {}, sizes=sizes, seed=arguments.seed)
    profile = _profile(model, inputs, arguments.calls)
    times = profile.by_call() if arguments.in_order else profile.by_kernel()
    shapes = {n: a.shape for n, a in zip(model.input_names, inputs, strict=True)}
    if arguments.json:
        print(json.dumps(_fields(profile, times, shapes, arguments), indent=1))
        return 0
    listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
    print(f"{arguments.model}: {listed}, threads: {arguments.threads}")
    console = Console(
        width=None if sys.stdout.isatty() else _WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(_table(profile, times))
    return 0


def _profile(model: CompiledModel, inputs: Sequence[np.ndarray], calls: int) -> Profile:
    try:
        return model.profile(*inputs, calls=calls)
    except RelaxError:
        raise
    except (TypeError, ValueError) as error:
        raise CallError(str(error)) from error


def _fields(
    profile: Profile,
    times: Sequence[KernelTime],
    shapes: Mapping[str, Sequence[int]],
    arguments: argparse.Namespace,
) -> dict[str, object]:
    return {
        "model": arguments.model,
        "shapes": shapes,
        "threads": arguments.threads,
        "calls": arguments.calls,
        "total_ms": profile.total_ms,
        "rest_ms": profile.rest_ms,
        "kernels": [asdict(time) for time in times],
    }


def _table(profile: Profile, times: Sequence[KernelTime]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("kernel", "rule"):
        table.add_column(title, overflow="fold")
    for title in ("runs", "ms", "share", "GFLOP/s"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("nodes", overflow="fold")
    for time in times:
        table.add_row(*_row(time))
    share = profile.rest_ms / profile.total_ms
    table.add_row("main and rest", "", "", *_part(profile.rest_ms, share))
    table.add_row("whole call", "", "", *_part(profile.total_ms, 1))
    return table


def _row(time: KernelTime) -> tuple[str, ...]:
    rate = "" if time.rate_gflop_s is None else f"{time.rate_gflop_s:.1f}"
    more = f" +{len(time.nodes) - 1}" if len(time.nodes) > 1 else ""
    nodes = "".join(time.nodes[:1]) + more
    part = _part(time.time_ms, time.share)
    return (time.name, time.rule, str(time.runs), *part, rate, nodes)


def _part(time_ms: float, share: float) -> tuple[str, str]:
    return f"{time_ms:.4f}", f"{share:.1%}"
