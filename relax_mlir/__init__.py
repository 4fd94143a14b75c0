"""A machine-learning compiler in Python on MLIR."""

from relax_mlir.errors import RelaxError
from relax_mlir.module import IRModule

__all__ = ["IRModule", "RelaxError"]
