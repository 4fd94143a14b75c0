"""Default schedules of tensor programs, by rules that are asked in turn: ``tvm.dlight``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.dlight import base, cpu, gpu
from relax_mlir.dlight.blocks import BlockInfo, IterInfo, normalize_prim_func
from relax_mlir.dlight.default_schedule import ApplyDefaultSchedule
from relax_mlir.dlight.inlining import try_inline, try_inline_contiguous_spatial
from relax_mlir.dlight.rule import ScheduleRule

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
