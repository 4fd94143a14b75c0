"""Schedules of tensor programs."""

from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule.instruction import Instruction, InstructionKind
from relax_mlir.tir.schedule.random_variables import (
    RAND_VAR_TYPE,
    BlockRV,
    ExprRV,
    LoopRV,
    SBlockRV,
)
from relax_mlir.tir.schedule.schedule import Schedule
from relax_mlir.tir.schedule.state import ScheduleState
from relax_mlir.tir.schedule.state import Sref as StmtSRef
from relax_mlir.tir.schedule.trace import Trace

__all__ = [
    "RAND_VAR_TYPE",
    "BlockRV",
    "ExprRV",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "SBlockRV",
    "Schedule",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
]
