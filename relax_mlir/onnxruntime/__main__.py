"""Runs a program of onnxruntime on this package: ``python -m relax_mlir.onnxruntime app.py``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from relax_mlir.onnxruntime import install
from relax_mlir.support.import_alias import run_script

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run a script with its arguments; see :func:`run_script`."""
    return run_script(arguments, "relax_mlir.onnxruntime", install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
