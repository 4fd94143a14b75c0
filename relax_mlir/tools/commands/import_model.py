"""Import an ONNX model as the text of a Relax module.

Constants of more than a few elements go to OUT.safetensors. `relax-opt`, the other
commands and `relax_mlir.IRModule.load` read both files.
"""

import argparse

from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.support.files import check_writable
from relax_mlir.tools.arguments import add_shapes, values_by_name
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", help="an ONNX model")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="OUT.mlir",
        help="output file; without it the text is printed, and no constants are written",
    )
    parser.add_argument(
        "--locations", action="store_true", help="write node names as locations"
    )
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Import a model and write it."""
    if arguments.output is not None:
        check_writable(arguments.output)
    with shown_progress() as progress:
        progress("import", 0, 1)
        module = import_onnx(
            arguments.model, shapes=values_by_name("--shape", arguments.shapes)
        )
    locations: bool = arguments.locations
    if arguments.output is not None:
        module.save(arguments.output, locations=locations)
    else:
        print(module.mlir.operation.get_asm(enable_debug_info=locations))
    return 0
