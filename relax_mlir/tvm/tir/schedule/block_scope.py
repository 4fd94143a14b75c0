"""Block scopes: the dependences between sibling blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from relax_mlir.tvm.tir.schedule import accesses
from relax_mlir.tvm.tir.schedule.state import ScheduleState, StmtSRef

__all__ = ["BlockScope", "DepKind", "Dependency", "SBlockScope"]


class DepKind(IntEnum):
    """The kind of a dependence between blocks."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True)
class Dependency:
    """A dependence between two blocks.

    Attributes:
        src: the block that executes first.
        dst: the block that depends on it.
        kind: its kind.
    """

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


class BlockScope:
    """The dependences between the child blocks of a block or a PrimFunc.

    Args:
        state: the schedule state.
        scope: the sref of the parent block.
    """

    def __init__(self, state: ScheduleState, scope: StmtSRef) -> None:
        self._dependences: list[Dependency] = []
        assert scope.op is not None
        blocks = accesses.child_blocks(scope.op)
        for number, later in enumerate(blocks):
            read, written = (
                accesses.buffers_read(later),
                accesses.buffers_written(later),
            )
            for earlier in blocks[:number]:
                earlier_writes = accesses.buffers_written(earlier)
                earlier_reads = accesses.buffers_read(earlier)
                kinds = (
                    (DepKind.RAW, earlier_writes, read),
                    (DepKind.WAW, earlier_writes, written),
                    (DepKind.WAR, earlier_reads, written),
                )
                self._dependences += [
                    Dependency(state.sref(earlier), state.sref(later), kind)
                    for kind, first, second in kinds
                    if any(buffer in first for buffer in second)
                ]

    def get_deps_by_src(self, block: StmtSRef) -> Sequence[Dependency]:
        """The dependences of which a block is the source."""
        return [d for d in self._dependences if d.src is block]

    def get_deps_by_dst(self, block: StmtSRef) -> Sequence[Dependency]:
        """The dependences of which a block is the destination."""
        return [d for d in self._dependences if d.dst is block]


SBlockScope = BlockScope
