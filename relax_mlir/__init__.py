"""relax_mlir: a machine-learning compiler in Python on MLIR.

``import relax_mlir as tvm`` serves programs that were written for TVM; see
:mod:`relax_mlir.tvm`.
"""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relax_mlir.compiler import reference
    from relax_mlir.compiler.compile import compile
    from relax_mlir.compiler.driver import lower, run
    from relax_mlir.compiler.explain import Explanation, explain
    from relax_mlir.compiler.tuning.database import TuningDatabase
    from relax_mlir.compiler.tuning.search import tune
    from relax_mlir.frontends.onnx import check_onnx, import_onnx
    from relax_mlir.ir.module import IRModule
    from relax_mlir.pipeline import opt

from relax_mlir.errors import RelaxError, without_compiler
from relax_mlir.runtime.cpu import get_max_threads, set_max_threads
from relax_mlir.runtime.executable import CompiledModel, Executable, load
from relax_mlir.support.argument_types import check_exports, checked
from relax_mlir.support.source_tree import find_dialects
from relax_mlir.support.version import VERSION

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

__version__ = VERSION

# The runtime and the compiler are two distributions, which may be in different folders.
__path__ = extend_path(__path__, __name__)

# Names of the compiler by module; loaded lazily, so that running compiled models starts fast.
_COMPILING = {
    "Explanation": "compiler.explain",
    "IRModule": "ir.module",
    "TuningDatabase": "compiler.tuning.database",
    "check_onnx": "frontends.onnx",
    "compile": "compiler.compile",
    "explain": "compiler.explain",
    "import_onnx": "frontends.onnx",
    "lower": "compiler.driver",
    "op": "compiler.user_operators",
    "opt": "pipeline",
    "reference": "compiler.reference",
    "run": "compiler.driver",
    "tune": "compiler.tuning.search",
}


def __getattr__(name: str) -> Any:  # Any: modules, classes and functions
    """Load a subpackage, or a name of the compiler, on first use.

    Raises:
        ImportError: the compiler is not installed, but its runtime alone.
    """
    if name in _COMPILING:
        try:
            import_module("relax_mlir.compiler")  # of the same version
            module = import_module(f"relax_mlir.{_COMPILING[name]}")
        except ModuleNotFoundError as error:
            raise without_compiler(f"`relax_mlir.{name}`", error) from error
        found = module if name == "reference" else checked(getattr(module, name))
        globals()[name] = found
        return found
    if not name.startswith("_"):
        try:
            return import_module(f"relax_mlir.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"relax_mlir.{name}":
                raise
    raise AttributeError(f"module `relax_mlir` has no attribute `{name}`")


def __dir__() -> list[str]:
    """The public names, and what else is loaded."""
    return sorted({*globals(), *__all__})


find_dialects(__path__)
check_exports(globals())
