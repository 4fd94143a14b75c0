"""Sign a compiled model with an Ed25519 key.

The signature covers every byte of the file and is appended to it, so that the file still
loads, and runs as `python model.rxm`. `relax_mlir.load(path, public_key=...)` and
`--public-key` reject files that the key has not signed, RELAX_MLIR_TRUST=signed all that
are not signed with the key in RELAX_MLIR_PUBLIC_KEY. Needs `pip install relax-mlir-runtime[sign]`.
"""

import argparse

from relax_mlir.runtime.model_file import sign

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("model", help="a compiled model (.rxm)")
    add(
        "--key",
        metavar="KEY.pem",
        required=True,
        help="the private key: Ed25519, PEM, no passphrase; `relax-mlir keygen` generates one",
    )
    add(
        "-o",
        dest="output",
        metavar="OUT.rxm",
        help="output file (default: replace the unsigned file)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Sign a file."""
    output = arguments.output or arguments.model
    public_key = sign(arguments.model, arguments.key, output)
    print(f"{output}: signed with the key {public_key}")
    return 0
