"""Rule-based default schedules of PrimFuncs, without tuning: ``tvm.dlight``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.dlight import base, cpu, gpu
from relax_mlir.tvm.dlight.blocks import BlockInfo, IterInfo, normalize_prim_func
from relax_mlir.tvm.dlight.default_schedule import ApplyDefaultSchedule
from relax_mlir.tvm.dlight.inlining import try_inline, try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import ScheduleRule

__all__ = [
    "ApplyDefaultSchedule",
    "BlockInfo",
    "IterInfo",
    "ScheduleRule",
    "base",
    "cpu",
    "gpu",
    "normalize_prim_func",
    "try_inline",
    "try_inline_contiguous_spatial",
]

check_exports(globals())
