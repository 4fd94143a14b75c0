"""relax_mlir: a machine-learning compiler in Python on MLIR.

``import relax_mlir as tvm`` serves programs that were written for TVM; see
:mod:`relax_mlir.tvm`.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import extend_path, iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relax_mlir.compiler import reference
    from relax_mlir.compiler.compile import compile
    from relax_mlir.compiler.driver import lower, run
    from relax_mlir.compiler.explain import Explanation, explain
    from relax_mlir.compiler.export import export
    from relax_mlir.compiler.tuning.database import TuningDatabase
    from relax_mlir.compiler.tuning.search import tune
    from relax_mlir.compiler.user_operators import op
    from relax_mlir.frontends.onnx import check_onnx, import_onnx
    from relax_mlir.ir.module import IRModule
    from relax_mlir.pipeline import opt
    from relax_mlir.runtime.compiled_model import CompiledModel
    from relax_mlir.runtime.cpu import get_max_threads, set_max_threads
    from relax_mlir.runtime.executable import Executable
    from relax_mlir.runtime.loading import load

from relax_mlir.errors import RelaxError, without_compiler
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
    "export",
    "get_max_threads",
    "import_onnx",
    "load",
    "lower",
    "op",
    "opt",
    "reference",
    "run",
    "set_max_threads",
    "tune",
]

__version__ = VERSION

# The runtime and the compiler are two distributions, which may be in different folders.
if not Path(__file__).with_name("compiler").is_dir():
    __path__ = extend_path(__path__, __name__)

# Where names are defined. Modules are loaded when a name is used first: running a compiled
# model imports none of the compiler's, and `import relax_mlir` alone none at all.
_RUNNING = {
    "CompiledModel": "runtime.compiled_model",
    "Executable": "runtime.executable",
    "get_max_threads": "runtime.cpu",
    "load": "runtime.loading",
    "set_max_threads": "runtime.cpu",
}
_COMPILING = {
    "Explanation": "compiler.explain",
    "IRModule": "ir.module",
    "TuningDatabase": "compiler.tuning.database",
    "check_onnx": "frontends.onnx",
    "compile": "compiler.compile",
    "explain": "compiler.explain",
    "export": "compiler.export",
    "import_onnx": "frontends.onnx",
    "lower": "compiler.driver",
    "op": "compiler.user_operators",
    "opt": "pipeline",
    "reference": "compiler.reference",
    "run": "compiler.driver",
    "tune": "compiler.tuning.search",
}


def __getattr__(name: str) -> Any:  # Any: modules, classes and functions
    """Load a subpackage, or the module of a name, on first use.

    Raises:
        ImportError: the compiler is not installed, but its runtime alone.
    """
    if name in _RUNNING:
        return _loaded(name, _RUNNING[name])
    if name in _COMPILING:
        try:
            import_module("relax_mlir.compiler")  # of the same version
            return _loaded(name, _COMPILING[name])
        except ModuleNotFoundError as error:
            raise without_compiler(f"`relax_mlir.{name}`", error) from error
    if not name.startswith("_"):
        try:
            return import_module(f"relax_mlir.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"relax_mlir.{name}":
                raise
    raise AttributeError(f"module `relax_mlir` has no attribute `{name}`")


def _loaded(name: str, module: str) -> Any:  # Any: as above
    from relax_mlir.support.argument_types import checked

    loaded = import_module(f"relax_mlir.{module}")
    # `reference` is a module
    found = checked(getattr(loaded, name)) if hasattr(loaded, name) else loaded
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names and subpackages, loaded or not."""
    special = [name for name in globals() if name.startswith("__")]
    packages = {found.name for found in iter_modules(__path__)}
    # In a source tree it is beside the folder.
    if find_spec("relax_mlir.dialects") is not None:
        packages.add("dialects")
    return sorted({*__all__, *special, *(p for p in packages if p[0] != "_")})


find_dialects(__path__)
