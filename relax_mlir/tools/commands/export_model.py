"""Compile a model to a shared library with a C interface, or to a wheel that needs numpy alone."""

import argparse
import re
import time
from pathlib import Path

from relax_mlir.compiler.export import export
from relax_mlir.compiler.export_wheel import export_wheel
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
        metavar="OUT",
        required=True,
        help="output file, OUT.so, beside which the header OUT.h is written; of a wheel, the "
        "folder",
    )
    add(
        "--wheel",
        action="store_true",
        help="write a wheel: `import NAME; NAME.run(array)`",
    )
    add("--version", default="0.1.0", help="of the wheel (default: %(default)s)")
    add(
        "--targets",
        metavar="TARGET,...",
        help="processors to compile for, the most demanding one first (default: x86-64 with "
        "AMX, with VNNI, and the levels 4 to 2); the first that the processor supports is used",
    )
    add(
        "--name",
        help="prefix of the C functions, name of the package (default: the file's)",
    )
    add_compile_options(parser, "cache", "precision", "winograd", "tuning")
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export a model."""
    if not arguments.wheel:
        check_writable(arguments.output)
    start = time.perf_counter()
    chosen = compile_options(arguments)
    chosen["targets"] = arguments.targets.split(",") if arguments.targets else None
    with shown_progress() as progress:
        shapes = values_by_name("--shape", arguments.shapes)
        module = read_module(arguments.model, shapes, progress)
        chosen["progress"] = progress
        if arguments.wheel:
            name = arguments.name or re.sub(r"\W", "_", Path(arguments.model).stem)
            chosen |= {"name": name, "version": arguments.version}
            output, kept = export_wheel(module, arguments.output, **chosen)
        else:
            output = Path(arguments.output)
            kept = export(module, output, name=arguments.name, **chosen)
    time_s = time.perf_counter() - start
    size_mb = output.stat().st_size / 1e6
    print(f"{output}: {size_mb:.1f} MB for {', '.join(kept)}, {time_s:.2f} s")
    return 0
