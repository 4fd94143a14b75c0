"""Schedule rules for GPUs: ``tvm.dlight.gpu``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.dlight.gpu.fallback import Fallback
from relax_mlir.tvm.dlight.gpu.gemv import GEMV
from relax_mlir.tvm.dlight.gpu.general_reduction import GeneralReduction
from relax_mlir.tvm.dlight.gpu.low_batch_gemv import LowBatchGEMV
from relax_mlir.tvm.dlight.gpu.matmul import Matmul
from relax_mlir.tvm.dlight.gpu.reduction import Reduction
from relax_mlir.tvm.dlight.gpu.rms_norm import RMSNorm
from relax_mlir.tvm.dlight.gpu.transpose import Transpose

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
