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
    add("--all", action="store_true", help="list the configurations of every kernel")
    add("--json", action="store_true", help="print JSON")
    add_compile_options(parser, "target", "precision", "winograd")
    add_compile_options(parser, "checks", "library", "tuning")
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lower a model and print the schedules of its kernels."""
    with shown_progress() as progress:
        shapes = values_by_name("--shape", arguments.shapes)
        module = read_module(arguments.model, shapes, progress)
    explanation = explain(module, **compile_options(arguments))
    if arguments.json:
        print(json.dumps([asdict(kernel) for kernel in explanation.kernels], indent=1))
        return 0
    print("\n\n".join(_text(kernel, arguments.all) for kernel in explanation.kernels))
    return 0


def _text(kernel: KernelExplanation, lists_all: bool) -> str:
    configurations = kernel.choice.configurations if lists_all else ()
    return "\n".join([str(kernel), *(f"    {c}" for c in configurations)])
