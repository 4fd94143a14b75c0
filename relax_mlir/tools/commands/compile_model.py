"""Compile a model to a file that runs without being compiled again."""

import argparse
import time
from pathlib import Path

from relax_mlir.compiler import target_of
from relax_mlir.files import check_writable
from relax_mlir.tools.arguments import (
    add_precision,
    add_shapes,
    add_threads,
    add_tuning,
    by_name,
)
from relax_mlir.tools.models import compiled, read_module
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what it takes."""
    add = parser.add_argument
    add("model", help="an ONNX model, or a module (.mlir)")
    add("-o", dest="output", metavar="OUT.rxm", required=True, help="where it goes")
    add("--target", default="cpu", help="`cpu` for this machine, or such as cpu:znver3")
    add("--dump", metavar="DIR", help="write the module there after every stage")
    add("--no-cache", action="store_true", help="compile everything, and keep nothing")
    add_precision(parser)
    add_threads(parser)
    add_tuning(parser)
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile a model and save it."""
    check_writable(arguments.output)
    target = target_of(arguments.target)
    start = time.perf_counter()
    with shown_progress() as progress:
        shapes = by_name("--shape", arguments.shapes)
        model = compiled(
            arguments.model,
            read_module(arguments.model, shapes, progress),
            target=target,
            precision=arguments.precision or "f32",
            threads=arguments.threads,
            cache=not arguments.no_cache,
            tuning=arguments.tuning,
            dump=arguments.dump,
            progress=progress,
        )
    time_s = time.perf_counter() - start
    model.save(arguments.output)
    size_mb = Path(arguments.output).stat().st_size / 1e6
    print(f"{arguments.output}: {model.signature}")
    print(f"{size_mb:.1f} MB for {target}, {time_s:.2f} s")
    return 0
