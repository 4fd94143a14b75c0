"""What the commands of ``relax-mlir`` take: the arguments that more than one has."""

import argparse
from collections.abc import Iterable, Sequence
from typing import TypeVar

from relax_mlir.errors import RelaxError
from relax_mlir.targets import LIBRARY_POLICIES, PRECISIONS, WINOGRAD_POLICIES

__all__ = [
    "UsageError",
    "add_check_indices",
    "add_library",
    "add_precision",
    "add_public_key",
    "add_random_inputs",
    "add_shapes",
    "add_sizes",
    "add_threads",
    "add_tuning",
    "add_winograd",
    "by_name",
    "count",
    "pair",
    "size",
]

_Value = TypeVar("_Value")

_MAX_THREADS = 1024
_LARGEST_SIZE = 2**40


class UsageError(RelaxError):
    """The command line makes no sense."""


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add ``--shape``."""
    parser.add_argument(
        "--shape",
        dest="shapes",
        action="append",
        default=[],
        type=_shape,
        metavar="INPUT=SIZES",
        help="sizes of an input that shall differ from the model's: x=n,3,224,224; "
        "a number fixes a size, a name leaves it open",
    )


def add_threads(parser: argparse.ArgumentParser, default: int | None = 1) -> None:
    """Add ``--threads``."""
    parser.add_argument(
        "--threads",
        type=count,
        default=default,
        metavar="N",
        help="how many may work on one call",
    )


def add_public_key(parser: argparse.ArgumentParser) -> None:
    """Add ``--public-key``."""
    parser.add_argument(
        "--public-key",
        metavar="KEY.pem",
        help="refuse a .rxm that this Ed25519 key has not signed. A .rxm is a program: it "
        "can do what you can do; RELAX_MLIR_TRUST=signed refuses all that are not signed",
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add ``--precision``."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="in which matrix products and convolutions are computed: f32 if not given",
    )


def add_library(parser: argparse.ArgumentParser) -> None:
    """Add ``--library``."""
    parser.add_argument(
        "--library",
        choices=LIBRARY_POLICIES,
        default="never",
        help="on GPUs, whether cuBLASLt computes matrix products, and cuDNN convolutions: "
        "never if not given",
    )


def add_winograd(parser: argparse.ArgumentParser) -> None:
    """Add ``--winograd``."""
    parser.add_argument(
        "--winograd",
        choices=WINOGRAD_POLICIES,
        help="on CPUs, whether 3x3 convolutions are computed by Winograd where that is "
        "faster: auto if not given",
    )


def add_check_indices(parser: argparse.ArgumentParser) -> None:
    """Add ``--check-indices``."""
    parser.add_argument(
        "--check-indices",
        dest="checks",
        action="store_const",
        const="indices",
        help="fail where an operator reads an index out of range, as onnxruntime does; "
        "otherwise it is clamped, or its update dropped",
    )


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add ``--tuning``."""
    parser.add_argument(
        "--tuning",
        metavar="DB.json",
        help="write kernels as `relax-mlir tune` found to be fastest",
    )


def add_random_inputs(parser: argparse.ArgumentParser) -> None:
    """Add ``--size`` and ``--seed``."""
    add_sizes(parser, "an open size of random inputs: n=4; 1 if not given")
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of random inputs"
    )


def add_sizes(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--size``."""
    parser.add_argument(
        "--size",
        dest="sizes",
        action="append",
        default=[],
        type=size,
        metavar="NAME=N",
        help=meaning,
    )


def count(text: str) -> int:
    """A number of threads.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    return _number(text, 1, _MAX_THREADS)


def pair(text: str) -> tuple[str, str]:
    """The two sides of ``name=value``.

    Raises:
        argparse.ArgumentTypeError: there are no two.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got `{text}`")
    return name, value


def size(text: str) -> tuple[str, int]:
    """The name of an open size, and its value.

    Raises:
        argparse.ArgumentTypeError: the text is not like ``n=4``.
    """
    name, value = pair(text)
    return name, _number(value, 0, _LARGEST_SIZE)


def _shape(text: str) -> tuple[str, Sequence[int | str]]:
    name, value = pair(text)
    sizes = [part.strip() for part in value.split(",")] if value else []
    if not all(sizes):
        raise argparse.ArgumentTypeError(f"expected sizes with commas, got `{text}`")
    return name, [int(s) if s.isdecimal() else s for s in sizes]


def _seed(text: str) -> int:
    return _number(text, 0, 2**32 - 1)


def by_name(option: str, pairs: Iterable[tuple[str, _Value]]) -> dict[str, _Value]:
    """What an option says of each name.

    Raises:
        UsageError: it says something twice.
    """
    found: dict[str, _Value] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"`{option} {name}=...` is given twice")
        found[name] = value
    return found


def _number(text: str, least: int, most: int) -> int:
    number = int(text) if text.isdecimal() and len(text) < 20 else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number from {least} to {most}, got `{text}`"
        )
    return number
