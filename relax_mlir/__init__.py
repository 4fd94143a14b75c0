"""A machine-learning compiler in Python on MLIR.

``import relax_mlir as tvm`` gives programs that were written for TVM the names that they
use; see :mod:`relax_mlir.tvm`.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relax_mlir import reference
    from relax_mlir.compiler import lower, run
    from relax_mlir.explanation import Explanation, explain
    from relax_mlir.frontends.onnx import check_onnx, import_onnx
    from relax_mlir.module import IRModule
    from relax_mlir.pipeline import opt
    from relax_mlir.tuning import tune
    from relax_mlir.tuning_database import TuningDatabase

from relax_mlir.argument_types import check_exports, checked
from relax_mlir.compilation import compile
from relax_mlir.errors import RelaxError
from relax_mlir.runtime.cpu import get_max_threads, set_max_threads
from relax_mlir.runtime.executable import CompiledModel, Executable, load

__all__ = [
    "CompiledModel",
    "Executable",
    "Explanation",
    "IRModule",
    "RelaxError",
    "TuningDatabase",
    "check_onnx",
    "compile",
    "explain",
    "get_max_threads",
    "import_onnx",
    "load",
    "lower",
    "opt",
    "reference",
    "run",
    "set_max_threads",
    "tune",
]

# What compiles, and where it is: who runs compiled models alone does not wait for it.
_COMPILING = {
    "Explanation": "explanation",
    "IRModule": "module",
    "TuningDatabase": "tuning_database",
    "check_onnx": "frontends.onnx",
    "explain": "explanation",
    "import_onnx": "frontends.onnx",
    "lower": "compiler",
    "op": "relax.user_operators",
    "opt": "pipeline",
    "run": "compiler",
    "tune": "tuning",
}

# TVM's names are found here as well, as modules (`relax_mlir.ir`) and as attributes.
__path__.append(str(Path(__file__).parent / "tvm"))


def __getattr__(name: str) -> Any:  # Any: modules, classes and functions
    """A package of ours that is loaded when it is first used, or one of TVM's names."""
    if name in _COMPILING:
        found = checked(getattr(import_module(f"relax_mlir.{_COMPILING[name]}"), name))
        globals()[name] = found
        return found
    if name.startswith("_"):
        raise AttributeError(f"module `relax_mlir` has no attribute `{name}`")
    try:
        return import_module(f"relax_mlir.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"relax_mlir.{name}":
            raise
    face = import_module("relax_mlir.tvm")
    if name not in face.__all__:
        raise AttributeError(f"module `relax_mlir` has no attribute `{name}`")
    return getattr(face, name)


check_exports(globals())
