"""What of ONNX models is compiled, or decided, while they run."""

from relax_mlir.stages.node import run_node
from relax_mlir.stages.stage import run_stage

__all__ = ["run_node", "run_stage"]
