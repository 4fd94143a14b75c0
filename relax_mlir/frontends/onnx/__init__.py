"""ONNX frontend: importer, and the conversion rules that emit several operations per node."""

from importlib import import_module
from pkgutil import iter_modules

from relax_mlir.frontends.onnx.importer import check_onnx, import_onnx
from relax_mlir.frontends.onnx.report import OnnxReport, Problem, Uncovered
from relax_mlir.support.argument_types import check_exports

__all__ = ["OnnxReport", "Problem", "Uncovered", "check_onnx", "import_onnx"]

# Importing a module of rules registers them; every module in this package is imported.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

check_exports(globals())
