"""The command ``relax-mlir``: ``python -m relax_mlir``."""

import sys

from relax_mlir.errors import without_compiler
from relax_mlir.support.version import VERSION

__all__ = ["main"]


def main() -> int:
    """Run the command; without the compiler, there is only ``--version``."""
    try:
        from relax_mlir.tools import cli
    except ModuleNotFoundError as error:
        if sys.argv[1:] == ["--version"]:
            print(f"relax-mlir-runtime {VERSION}")
            return 0
        print(
            f"relax_mlir: error: {without_compiler('relax-mlir', error)}",
            file=sys.stderr,
        )
        return 1
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
