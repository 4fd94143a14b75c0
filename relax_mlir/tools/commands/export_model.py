"""Compile a model to a shared library with a C interface, for several kinds of processors."""

import argparse
import time
from pathlib import Path

from relax_mlir.compiler.export import export
from relax_mlir.support.files import check_writable
from relax_mlir.tools.arguments import (
    add_compile_options,
    add_shapes,
    compile_options,
    values_by_name,
)
from relax_mlir.tools.models import read_module
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("model", help="an ONNX model, or a module (.mlir)")
    add(
        "-o",
        dest="output",
        metavar="OUT.so",
        required=True,
        help="output file; the header is written beside it, as OUT.h",
    )
    add(
        "--targets",
        metavar="TARGET,...",
        help="processors to compile for, the most demanding one first (default: x86-64 with "
        "AMX, with VNNI, and the levels 4 to 2); the first that the processor supports is used",
    )
    add("--name", help="prefix of the C functions (default: the name of the file)")
    add_compile_options(parser, "cache", "precision", "winograd", "tuning")
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export a model."""
    check_writable(arguments.output)
    start = time.perf_counter()
    targets = arguments.targets.split(",") if arguments.targets else None
    with shown_progress() as progress:
        shapes = values_by_name("--shape", arguments.shapes)
        module = read_module(arguments.model, shapes, progress)
        kept = export(
            module,
            arguments.output,
            targets=targets,
            name=arguments.name,
            progress=progress,
            **compile_options(arguments),
        )
    time_s = time.perf_counter() - start
    size_mb = Path(arguments.output).stat().st_size / 1e6
    print(f"{arguments.output}: {size_mb:.1f} MB for {', '.join(kept)}, {time_s:.2f} s")
    return 0
