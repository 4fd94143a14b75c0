"""Show the schedule rule of each kernel of a model, and why other rules do not apply.

A kernel is a PrimFunc, under the name that `relax-mlir profile` shows. Its rule is printed
with its configuration, such as `Gemm{rows=6, vectors=4}`, which the attribute
`tir.config` of a kernel can select; `--all` lists all configurations. No machine code is
generated, so `--target` may be any.
"""

import argparse
import json
from dataclasses import asdict

from relax_mlir.compiler.explain import KernelExplanation, explain
from relax_mlir.tools.arguments import (
    add_check_indices,
    add_library,
    add_precision,
    add_shapes,
    add_tuning,
    add_winograd,
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
        "--target",
        default="cpu",
        help="`cpu` for this machine, or for example cpu:znver3",
    )
    add("--all", action="store_true", help="list the configurations of every kernel")
    add("--json", action="store_true", help="print JSON")
    add_precision(parser)
    add_winograd(parser)
    add_check_indices(parser)
    add_library(parser)
    add_tuning(parser)
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lower a model and print the schedules of its kernels."""
    with shown_progress() as progress:
        shapes = values_by_name("--shape", arguments.shapes)
        module = read_module(arguments.model, shapes, progress)
    explanation = explain(
        module,
        target=arguments.target,
        precision=arguments.precision or "f32",
        winograd=arguments.winograd or "auto",
        checks=arguments.checks or "none",
        library=arguments.library,
        tuning=arguments.tuning,
    )
    if arguments.json:
        print(json.dumps([asdict(kernel) for kernel in explanation.kernels], indent=1))
        return 0
    print("\n\n".join(_text(kernel, arguments.all) for kernel in explanation.kernels))
    return 0


def _text(kernel: KernelExplanation, lists_all: bool) -> str:
    configurations = kernel.choice.configurations if lists_all else ()
    return "\n".join([str(kernel), *(f"    {c}" for c in configurations)])
