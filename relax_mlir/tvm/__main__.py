"""Runs a TVM program on this package: ``python -m relax_mlir.tvm script.py``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from relax_mlir.support.import_alias import run_script
from relax_mlir.tvm import install

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Runs a script with its arguments; see :func:`run_script`."""
    return run_script(arguments, "relax_mlir.tvm", install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
