"""Queries on schedules."""

from __future__ import annotations

from relax_mlir.errors import ScheduleError
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.tir.schedule import accesses
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV
from relax_mlir.tvm.tir.schedule.schedule import Schedule

__all__ = ["has_block", "is_output_block"]


def has_block(sch: Schedule, block_name: str) -> bool:
    """Whether the current PrimFunc has exactly one block with a name."""
    try:
        sch.copy().get_block(block_name)
    except ScheduleError:
        return False
    return True


def is_output_block(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    return accesses.is_output(sch.block_op(block))


check_exports(globals())
