"""Tell which schedule rule writes each kernel of a model, how, and why others do not.

A kernel is a tensor program, under the name that `relax-mlir profile` shows. Its rule is
printed with its configuration: `Contraction{rows=6, vectors=4}` is what the attribute
`tir.config` of a kernel may ask for; `--all` lists all that there are. Nothing is compiled
to machine code, so `--target` may be any.
"""

import argparse
import json
from dataclasses import asdict

from relax_mlir.explanation import KernelExplanation, explain
from relax_mlir.tools.arguments import (
    add_check_indices,
    add_library,
    add_precision,
    add_shapes,
    add_tuning,
    add_winograd,
    by_name,
)
from relax_mlir.tools.models import read_module
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what it takes."""
    add = parser.add_argument
    add("model", help="an ONNX model, or a module (.mlir)")
    add("--target", default="cpu", help="`cpu` for this machine, or such as cpu:znver3")
    add("--all", action="store_true", help="list the configurations of every kernel")
    add("--json", action="store_true", help="print JSON")
    add_precision(parser)
    add_winograd(parser)
    add_check_indices(parser)
    add_library(parser)
    add_tuning(parser)
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lower a model and tell how its kernels are written."""
    with shown_progress() as progress:
        shapes = by_name("--shape", arguments.shapes)
        module = read_module(arguments.model, shapes, progress)
    told = explain(
        module,
        target=arguments.target,
        precision=arguments.precision or "f32",
        winograd=arguments.winograd or "auto",
        checks=arguments.checks or "none",
        library=arguments.library,
        tuning=arguments.tuning,
    )
    if arguments.json:
        print(json.dumps([asdict(kernel) for kernel in told.kernels], indent=1))
        return 0
    print("\n\n".join(_text(kernel, arguments.all) for kernel in told.kernels))
    return 0


def _text(kernel: KernelExplanation, is_whole: bool) -> str:
    ways = kernel.choice.configurations if is_whole else ()
    return "\n".join([str(kernel), *(f"    {way}" for way in ways)])
