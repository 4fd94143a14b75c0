"""Rules for GPUs: ``tvm.dlight.gpu``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.dlight.gpu.fallback import Fallback
from relax_mlir.dlight.gpu.gemv import GEMV
from relax_mlir.dlight.gpu.general_reduction import GeneralReduction
from relax_mlir.dlight.gpu.low_batch_gemv import LowBatchGEMV
from relax_mlir.dlight.gpu.matmul import Matmul
from relax_mlir.dlight.gpu.reduction import Reduction
from relax_mlir.dlight.gpu.rms_norm import RMSNorm
from relax_mlir.dlight.gpu.transpose import Transpose

__all__ = [
    "GEMV",
    "Fallback",
    "GeneralReduction",
    "LowBatchGEMV",
    "Matmul",
    "RMSNorm",
    "Reduction",
    "Transpose",
]

check_exports(globals())
