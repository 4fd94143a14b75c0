"""Import ONNX models; rules that make several operations of one node, by family."""

from importlib import import_module
from pkgutil import iter_modules

from relax_mlir.argument_types import check_exports
from relax_mlir.frontends.onnx.importer import check_onnx, import_onnx
from relax_mlir.frontends.onnx.report import OnnxReport, Problem, Uncovered

__all__ = ["OnnxReport", "Problem", "Uncovered", "check_onnx", "import_onnx"]

# A family of rules registers them when it is imported, and is found by being here.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

check_exports(globals())
