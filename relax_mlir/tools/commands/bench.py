"""Measure the latency of a model, and compare it with onnxruntime.

onnxruntime is measured if it is installed and the model is .onnx: on the same random
inputs, with the same number of threads, interleaved so that both see the same machine
state. The ratio is the time of relax_mlir divided by that of onnxruntime.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from relax_mlir.runtime.executable import CompiledModel
from relax_mlir.tools.arguments import (
    add_compile_options,
    add_public_key,
    add_random_inputs,
    compile_options,
    thread_count,
    values_by_name,
)
from relax_mlir.tools.arrays import gather_inputs
from relax_mlir.tools.models import call_model, open_model
from relax_mlir.tools.progress import shown_progress
from relax_mlir.tools.timing import (
    ROUNDS,
    Comparison,
    Spread,
    compare,
    onnxruntime_call,
    time_calls,
)

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", help="a model: .onnx, .mlir or .rxm")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=thread_count, default=ROUNDS, metavar="N")
    add_public_key(parser)
    add_compile_options(parser, "precision", "winograd", "checks", "threads")
    parser.set_defaults(threads=1)  # also of a .rxm
    add_random_inputs(parser)


@dataclass(frozen=True)
class _Result:
    """The measurements.

    Attributes:
        model: the path of the model.
        shapes: shapes of the inputs.
        threads, rounds: the arguments.
        ready_s: time to compile without the cache, or to load.
        latency_ms: the latency of a call.
        onnxruntime: the comparison; None if onnxruntime was not measured.
        note: the reason why not.
    """

    model: str
    shapes: Mapping[str, Sequence[int]]
    threads: int
    rounds: int
    ready_s: float
    latency_ms: Spread
    onnxruntime: Comparison | None
    note: str


def run(arguments: argparse.Namespace) -> int:
    """Compile a model without the cache, and time it."""
    sizes = values_by_name("--size", arguments.sizes)
    start = time.perf_counter()
    with shown_progress() as progress:
        model = open_model(
            arguments.model,
            progress=progress,
            public_key=arguments.public_key,
            **compile_options(arguments),
            cache=False,
        )
    ready_s = time.perf_counter() - start
    inputs = gather_inputs(model.signature, {}, sizes=sizes, seed=arguments.seed)
    result = _measure(model, inputs, arguments, ready_s)
    print(json.dumps(asdict(result), indent=1) if arguments.json else _text(result))
    return 0


def _measure(
    model: CompiledModel,
    inputs: Sequence[np.ndarray],
    arguments: argparse.Namespace,
    ready_s: float,
) -> _Result:
    call_model(model, inputs)
    compared, note = _against_onnxruntime(model, inputs, arguments)
    if compared is not None:
        latency_ms = compared.ours_ms
    else:
        times = time_calls(lambda: model(*inputs), rounds=arguments.rounds)
        latency_ms = Spread.of(1e3 * times[0])
    return _Result(
        arguments.model,
        {n: a.shape for n, a in zip(model.input_names, inputs, strict=True)},
        arguments.threads,
        arguments.rounds,
        ready_s,
        latency_ms,
        compared,
        note,
    )


def _against_onnxruntime(
    model: CompiledModel, inputs: Sequence[np.ndarray], arguments: argparse.Namespace
) -> tuple[Comparison | None, str]:
    """The comparison, or None and the reason."""
    if Path(arguments.model).suffix in (".mlir", ".rxm"):
        return None, "reads .onnx only"
    named = dict(zip(model.input_names, inputs, strict=True))
    try:
        theirs = onnxruntime_call(arguments.model, arguments.threads)
        if theirs is None:
            return None, "not installed"
        theirs(named)
    except Exception as error:  # onnxruntime raises many types
        return None, f"cannot run it: {error}"
    return compare(lambda: model(*inputs), lambda: theirs(named), arguments.rounds), ""


def _text(result: _Result) -> str:
    shapes = ", ".join(f"{name} {list(s)}" for name, s in result.shapes.items())
    ready = "loaded in" if result.model.endswith(".rxm") else "compiled in"
    lines = [
        f"{result.model}: {shapes}, threads: {result.threads}",
        f"{ready:<12} {result.ready_s:.3f} s",
        f"relax_mlir   {_milliseconds(result.latency_ms)}",
    ]
    compared = result.onnxruntime
    if compared is None:
        return "\n".join([*lines, f"onnxruntime  {result.note}"])
    ratio = compared.ratio
    return "\n".join(
        [
            *lines,
            f"onnxruntime  {_milliseconds(compared.theirs_ms)}",
            f"ratio        {ratio.median:.2f}  ({ratio.p10:.2f} to {ratio.p90:.2f})",
            f"difference   {compared.error:.1e} of the output's scale",
        ]
    )


def _milliseconds(spread: Spread) -> str:
    return f"{spread.median:.4f} ms  ({spread.p10:.4f} to {spread.p90:.4f})"
