"""Make a pair of Ed25519 keys to sign compiled models with.

The private key is PEM (PKCS 8) without a passphrase, readable by you alone; the public key
goes beside it, with `.pub.pem` at the end. OpenSSL makes the same:
  openssl genpkey -algorithm ed25519 -out key.pem
  openssl pkey -in key.pem -pubout -out key.pub.pem
"""

import argparse

from relax_mlir.runtime.signing import generate_keys

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what it takes."""
    parser.add_argument("key", metavar="KEY.pem", help="where the private key goes")


def run(arguments: argparse.Namespace) -> int:
    """Make the keys; files that exist are left alone."""
    public_path = generate_keys(arguments.key)
    print(f"{arguments.key}: private key, keep it secret")
    print(f"{public_path}: public key")
    return 0
