"""Building, by the module that TVM has it in."""

from relax_mlir.relax.vm import (
    VMExecutable,
    build,
)

__all__ = ["VMExecutable", "build"]
