"""Compile a model ahead of time to a .rxm file."""

import argparse
import time
from pathlib import Path

from relax_mlir.compiler.differential_check import inputs_of_valid_sizes
from relax_mlir.compiler.driver import target_of
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.smoke_run import with_expected_outputs
from relax_mlir.support.files import check_writable
from relax_mlir.tools.arguments import (
    UsageError,
    add_compile_options,
    add_shapes,
    compile_options,
    values_by_name,
)
from relax_mlir.tools.models import compile_model, read_module
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]

# Tolerated differences from f32 on a CPU, relative to the scale of an output.
_TOLERANCES = {"f32": 1e-4, "tf32": 5e-3, "bf16": 3e-2, "f16": 5e-3, "f8": 2e-1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("model", help="an ONNX model, or a module (.mlir)")
    add("-o", dest="output", metavar="OUT.rxm", required=True, help="output file")
    add(
        "--check",
        action="store_true",
        help="for GPU models: store this machine's CPU results for random inputs in the "
        "file; `python OUT.rxm` compares with them",
    )
    add_compile_options(parser, "target", "dump", "cache", "precision", "winograd")
    add_compile_options(parser, "checks", "library", "threads", "tuning")
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile a model and save it."""
    check_writable(arguments.output)
    options = compile_options(arguments)
    target = options["target"] = target_of(options.get("target", "cpu"))
    if arguments.check and target.device == "cpu":
        raise UsageError("`--check` is for models that run on a GPU")
    start = time.perf_counter()
    with shown_progress() as progress:
        shapes = values_by_name("--shape", arguments.shapes)
        module = read_module(arguments.model, shapes, progress)
        model = compile_model(arguments.model, module, progress=progress, **options)
        if arguments.check:
            if not isinstance(model, CudaExecutable):
                raise UsageError(
                    "`--check` is for models that are fully compiled ahead of time: parts "
                    "of this one are compiled at run time"
                )
            tolerance = _TOLERANCES[options.get("precision", "f32")]
            on_cpu = compile_model(arguments.model, module, progress=progress)
            model = with_expected_outputs(
                model, on_cpu, inputs_of_valid_sizes(module), tolerance
            )
    time_s = time.perf_counter() - start
    model.save(arguments.output)
    size_mb = Path(arguments.output).stat().st_size / 1e6
    print(f"{arguments.output}: {model.signature}")
    print(f"{size_mb:.1f} MB for {target}, {time_s:.2f} s")
    return 0
