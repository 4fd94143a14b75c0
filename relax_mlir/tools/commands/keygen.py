"""Generate an Ed25519 key pair for signing compiled models.

The private key is PEM (PKCS 8) without a passphrase, readable only by you; the public key
gets the suffix `.pub.pem`. The equivalent with OpenSSL:
  openssl genpkey -algorithm ed25519 -out key.pem
  openssl pkey -in key.pem -pubout -out key.pub.pem
"""

import argparse

from relax_mlir.runtime.signing import generate_keys

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("key", metavar="KEY.pem", help="output file of the private key")


def run(arguments: argparse.Namespace) -> int:
    """Generate the keys; existing files are not overwritten."""
    public_path = generate_keys(arguments.key)
    print(f"{arguments.key}: private key, keep it secret")
    print(f"{public_path}: public key")
    return 0
