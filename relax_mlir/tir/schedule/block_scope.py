"""Which blocks of a scope depend on which, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from relax_mlir.tir.schedule import accesses
from relax_mlir.tir.schedule.state import ScheduleState, Sref

__all__ = ["BlockScope", "DepKind", "Dependency", "SBlockScope"]


class DepKind(IntEnum):
    """Why one block has to come before another."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True)
class Dependency:
    """That one block has to come before another.

    Attributes:
        src: the block that comes first.
        dst: the other one.
        kind: why.
    """

    src: Sref
    dst: Sref
    kind: DepKind


class BlockScope:
    """The dependences between the blocks directly in a block or a program.

    Args:
        state: the module that is scheduled.
        scope: the block, or the root block of a program.
    """

    def __init__(self, state: ScheduleState, scope: Sref) -> None:
        self._found: list[Dependency] = []
        assert scope.op is not None
        blocks = accesses.scope_children(scope.op)
        for number, later in enumerate(blocks):
            read, written = (
                accesses.buffers_read(later),
                accesses.buffers_written(later),
            )
            for earlier in blocks[:number]:
                made = accesses.buffers_written(earlier)
                used = accesses.buffers_read(earlier)
                kinds = (
                    (DepKind.RAW, made, read),
                    (DepKind.WAW, made, written),
                    (DepKind.WAR, used, written),
                )
                self._found += [
                    Dependency(state.sref(earlier), state.sref(later), kind)
                    for kind, first, second in kinds
                    if any(buffer in first for buffer in second)
                ]

    def get_deps_by_src(self, block: Sref) -> Sequence[Dependency]:
        """What depends on a block."""
        return [d for d in self._found if d.src is block]

    def get_deps_by_dst(self, block: Sref) -> Sequence[Dependency]:
        """What a block depends on."""
        return [d for d in self._found if d.dst is block]


SBlockScope = BlockScope
