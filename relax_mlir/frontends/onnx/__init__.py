"""Import ONNX models; rules that make several operations of one node, by family."""

from relax_mlir.frontends.onnx import (
    constants,  # noqa: F401: imported for its rules, as all of these
    control,  # noqa: F401
    elementwise,  # noqa: F401
    matmul,  # noqa: F401
    movement,  # noqa: F401
    resize,  # noqa: F401
    softmax,  # noqa: F401
)
from relax_mlir.frontends.onnx.importer import check_onnx, import_onnx
from relax_mlir.frontends.onnx.report import OnnxReport, Problem, Uncovered

__all__ = ["OnnxReport", "Problem", "Uncovered", "check_onnx", "import_onnx"]
