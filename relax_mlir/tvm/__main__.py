"""Runs a TVM program on this package: ``python -m relax_mlir.tvm script.py``."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from relax_mlir.tvm import install

__all__ = ["main"]

_USAGE = "usage: python -m relax_mlir.tvm SCRIPT.py [ARGUMENT ...]"


def main(arguments: Sequence[str]) -> int:
    """Runs a script with its arguments, as ``python SCRIPT.py`` does.

    Exceptions of the script propagate.

    Returns:
        The exit status: 2 for a wrong command line or a missing file, else 0.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    script = Path(arguments[0])
    if not script.is_file():
        print(f"{_USAGE}\nerror: {script}: no such file", file=sys.stderr)
        return 2
    install()
    sys.argv = list(arguments)
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
