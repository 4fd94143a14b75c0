"""Arguments shared by the commands of ``relax-mlir``."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from platform import python_version
from typing import Any, TypeVar

from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import RelaxError
from relax_mlir.support.version import VERSION
from relax_mlir.targets import CHOICES

__all__ = [
    "UsageError",
    "add_compile_options",
    "add_public_key",
    "add_random_inputs",
    "add_shapes",
    "add_sizes",
    "compile_options",
    "flag_of",
    "name_value_pair",
    "named_size",
    "thread_count",
    "tool_version",
    "values_by_name",
]

_Value = TypeVar("_Value")

_MAX_THREADS = 1024
_LARGEST_SIZE = 2**40


class UsageError(RelaxError):
    """The command line is invalid."""


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add ``--shape``."""
    parser.add_argument(
        "--shape",
        dest="shapes",
        action="append",
        default=[],
        type=_shape,
        metavar="INPUT=SIZES",
        help="override the shape of an input: x=n,3,224,224; a number is a static size, a "
        "name a symbolic one",
    )


def add_compile_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add arguments for fields of :class:`CompileOptions`; see :func:`compile_options`."""
    for name in names:
        flag, arguments = _COMPILE_OPTIONS[name]
        default = _DEFAULTS[name]
        has_default = isinstance(default, str) and default != "none"
        shown = f" (default: {default})" if has_default else ""
        text = f"{arguments['help']}{shown}"
        parser.add_argument(flag, **{**arguments, "help": text, "dest": name})


_DEFAULTS = {f.name: f.default for f in fields(CompileOptions)}


def compile_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of :func:`add_compile_options` that are given, by field."""
    values = {name: getattr(arguments, name, None) for name in _COMPILE_OPTIONS}
    return {name: value for name, value in values.items() if value is not None}


def flag_of(name: str) -> str:
    """The flag of a compile option, such as ``--tuning``."""
    return _COMPILE_OPTIONS[name][0]


def add_public_key(parser: argparse.ArgumentParser) -> None:
    """Add ``--public-key``."""
    parser.add_argument(
        "--public-key",
        metavar="KEY.pem",
        help="reject a .rxm that this Ed25519 key has not signed. A .rxm is a program and runs "
        "with your permissions; RELAX_MLIR_TRUST=signed rejects all unsigned ones",
    )


def add_random_inputs(parser: argparse.ArgumentParser) -> None:
    """Add ``--size`` and ``--seed``."""
    add_sizes(parser, "a symbolic size of random inputs: n=4 (default: 1)")
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="seed of random inputs"
    )


def add_sizes(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--size``."""
    parser.add_argument(
        "--size",
        dest="sizes",
        action="append",
        default=[],
        type=named_size,
        metavar="NAME=N",
        help=meaning,
    )


def thread_count(text: str) -> int:
    """Parse a number of threads.

    Raises:
        argparse.ArgumentTypeError: the text is not a number in range.
    """
    return _number(text, 1, _MAX_THREADS)


# Flag and arguments of each option, by field of `CompileOptions`.
_COMPILE_OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "target": (
        "--target",
        {"help": "the machine: `cpu` is this one, others are cpu:znver3 or cuda:sm_90"},
    ),
    "precision": (
        "--precision",
        {
            "choices": CHOICES["precision"],
            "help": "precision of matmuls and convolutions",
        },
    ),
    "winograd": (
        "--winograd",
        {
            "choices": CHOICES["winograd"],
            "help": "on CPUs, whether to use Winograd for 3x3 convolutions where it is faster",
        },
    ),
    "library": (
        "--library",
        {
            "choices": CHOICES["library"],
            "help": "on GPUs, when to use cuBLASLt for matmuls and cuDNN for convolutions",
        },
    ),
    "checks": (
        "--check-indices",
        {
            "action": "store_const",
            "const": "indices",
            "help": "fail if an operator reads an index out of range, as onnxruntime does; "
            "otherwise the index is clamped, or its update dropped",
        },
    ),
    "threads": (
        "--threads",
        {"type": thread_count, "metavar": "N", "help": "number of threads per call"},
    ),
    "tuning": (
        "--tuning",
        {
            "metavar": "DB.json",
            "help": "use the fastest kernel configurations found by `relax-mlir tune`",
        },
    ),
    "dump": (
        "--dump",
        {"metavar": "DIR", "help": "write the module after every stage to DIR"},
    ),
    "cache": (
        "--no-cache",
        {
            "action": "store_const",
            "const": False,
            "help": "do not use the kernel cache",
        },
    ),
}


def name_value_pair(text: str) -> tuple[str, str]:
    """Parse ``name=value``.

    Raises:
        argparse.ArgumentTypeError: there is no ``=``.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got `{text}`")
    return name, value


def named_size(text: str) -> tuple[str, int]:
    """Parse the name of a symbolic size and its value, such as ``n=4``.

    Raises:
        argparse.ArgumentTypeError: the text is malformed.
    """
    name, value = name_value_pair(text)
    return name, _number(value, 0, _LARGEST_SIZE)


def _shape(text: str) -> tuple[str, Sequence[int | str]]:
    name, value = name_value_pair(text)
    sizes = [part.strip() for part in value.split(",")] if value else []
    if not all(sizes):
        raise argparse.ArgumentTypeError(f"expected sizes with commas, got `{text}`")
    return name, [int(s) if s.isdecimal() else s for s in sizes]


def _seed(text: str) -> int:
    return _number(text, 0, 2**32 - 1)


def values_by_name(
    option: str, pairs: Iterable[tuple[str, _Value]]
) -> dict[str, _Value]:
    """The values of a repeated ``NAME=VALUE`` option by name.

    Raises:
        UsageError: a name occurs twice.
    """
    found: dict[str, _Value] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"`{option} {name}=...` occurs twice")
        found[name] = value
    return found


def _number(text: str, least: int, most: int) -> int:
    number = int(text) if text.isdecimal() and len(text) < 20 else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number from {least} to {most}, got `{text}`"
        )
    return number


def tool_version(tool: str) -> str:
    """The versions of this package, of MLIR and of Python, in one line."""
    mlir = version("xtc-mlir-python-bindings")
    return f"{tool} {VERSION}, MLIR {mlir}, Python {python_version()}"
