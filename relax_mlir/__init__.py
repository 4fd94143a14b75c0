"""A machine-learning compiler in Python on MLIR."""

from relax_mlir import reference
from relax_mlir.compiler import compile, lower, run
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import check_onnx, import_onnx
from relax_mlir.module import IRModule
from relax_mlir.pipeline import opt
from relax_mlir.runtime.executable import Executable, load

__all__ = [
    "Executable",
    "IRModule",
    "RelaxError",
    "check_onnx",
    "compile",
    "import_onnx",
    "load",
    "lower",
    "opt",
    "reference",
    "run",
]
