"""TensorIR schedules: transformations of loops and blocks."""

from relax_mlir.errors import ScheduleError
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.tir.schedule import analysis
from relax_mlir.tvm.tir.schedule.block_scope import (
    BlockScope,
    Dependency,
    DepKind,
    SBlockScope,
)
from relax_mlir.tvm.tir.schedule.instruction import Instruction, InstructionKind
from relax_mlir.tvm.tir.schedule.random_variables import (
    RAND_VAR_TYPE,
    BlockRV,
    ExprRV,
    LoopRV,
    SBlockRV,
)
from relax_mlir.tvm.tir.schedule.schedule import Schedule
from relax_mlir.tvm.tir.schedule.state import ScheduleDebugMask, ScheduleState, StmtSRef
from relax_mlir.tvm.tir.schedule.trace import Trace

__all__ = [
    "RAND_VAR_TYPE",
    "BlockRV",
    "BlockScope",
    "DepKind",
    "Dependency",
    "ExprRV",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "SBlockRV",
    "SBlockScope",
    "Schedule",
    "ScheduleDebugMask",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
    "analysis",
]

check_exports(globals())
