"""Public interface for writing schedule rules: ``tvm.dlight.base``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.dlight.blocks import (
    BlockInfo,
    IterInfo,
    SBlockInfo,
    detect_dominant_read,
    is_broadcast_epilogue,
    normalize_prim_func,
)
from relax_mlir.tvm.dlight.default_schedule import ApplyDefaultSchedule
from relax_mlir.tvm.dlight.inlining import try_inline, try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import ScheduleRule

__all__ = [
    "ApplyDefaultSchedule",
    "BlockInfo",
    "IterInfo",
    "SBlockInfo",
    "ScheduleRule",
    "detect_dominant_read",
    "is_broadcast_epilogue",
    "normalize_prim_func",
    "try_inline",
    "try_inline_contiguous_spatial",
]

check_exports(globals())
