"""Run a model on arrays and summarize its outputs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from relax_mlir.errors import near_misses
from relax_mlir.tools.arguments import (
    UsageError,
    add_compile_options,
    add_public_key,
    add_random_inputs,
    compile_options,
    name_value_pair,
    values_by_name,
)
from relax_mlir.tools.arrays import (
    ArrayError,
    array_summary,
    gather_inputs,
    output_file_name,
    top_scores,
    write_array,
)
from relax_mlir.tools.models import call_model, open_model
from relax_mlir.tools.progress import shown_progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("model", help="a model: .onnx, .mlir or .rxm")
    add(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        type=name_value_pair,
        metavar="NAME=FILE.npy",
        help="an input; repeat for further inputs",
    )
    add(
        "--random-inputs",
        action="store_true",
        help="use random arrays for inputs that are not given",
    )
    add(
        "--output",
        dest="outputs",
        action="append",
        default=[],
        metavar="DIR | NAME=FILE.npy",
        help="a folder for all outputs, or a file for one output",
    )
    add_public_key(parser)
    add_compile_options(parser, "precision", "winograd", "checks", "threads")
    add_random_inputs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a model once."""
    if arguments.sizes and not arguments.random_inputs:
        raise UsageError("`--size` is for `--random-inputs`")
    given = values_by_name("--input", arguments.inputs)
    sizes = values_by_name("--size", arguments.sizes)
    with shown_progress() as progress:
        model = open_model(
            arguments.model,
            progress=progress,
            public_key=arguments.public_key,
            **compile_options(arguments),
        )
    files = _destinations(arguments.outputs, model.output_names)
    inputs = gather_inputs(
        model.signature,
        given,
        sizes=sizes if arguments.random_inputs else None,
        seed=arguments.seed,
    )
    outputs = call_model(model, inputs)
    for name, array in zip(model.output_names, outputs, strict=True):
        print(array_summary(name, array))
        for line in top_scores(array):
            print(f"  {line}")
    for index, path in files:
        _write(path, outputs[index])
    return 0


def _destinations(given: Sequence[str], names: Sequence[str]) -> list[tuple[int, Path]]:
    """Pairs of output index and file."""
    files: list[tuple[int, Path]] = []
    for text in given:
        name, equals, path = text.partition("=")
        if not equals:
            files += _in_folder(Path(text), names)
        elif name in names:
            files.append((names.index(name), Path(path)))
        else:
            known = ", ".join(f"`{n}`" for n in names)
            hint = near_misses(name, names)
            raise ArrayError(f"no output `{name}`: expected one of {known}.{hint}")
    return files


def _in_folder(folder: Path, names: Sequence[str]) -> list[tuple[int, Path]]:
    """A file for each output; an index prefix makes clashing names unique."""
    taken: set[str] = set()
    files: list[tuple[int, Path]] = []
    for index, name in enumerate(names):
        file = output_file_name(name)
        if file in taken:
            file = f"{index}_{file}"
        taken.add(file)
        files.append((index, folder / file))
    return files


def _write(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_array(path, array)
