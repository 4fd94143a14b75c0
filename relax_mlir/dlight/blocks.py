"""What rules ask of the blocks of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.errors import ScheduleError
from relax_mlir.objects import prim
from relax_mlir.objects.buffer import BufferRegion
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.stmt import Block, Evaluate
from relax_mlir.objects.stmt_functor import free_names
from relax_mlir.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "BlockInfo",
    "IterInfo",
    "SBlockInfo",
    "axes_in",
    "axes_of",
    "detect_dominant_read",
    "extent_of",
    "is_broadcast_epilogue",
    "normalize_prim_func",
    "plain_axes",
]

_KINDS = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}


@dataclass(frozen=True)
class IterInfo:
    """An axis of a block, and its loop.

    Attributes:
        kind: ``S`` spatial, ``R`` reduce or ``O`` something else.
        var: its variable; dom: how long it is, a number where that is known.
        loop_rv: the loop.
    """

    kind: str
    var: Var
    dom: int | PrimExpr
    loop_rv: LoopRV


@dataclass(frozen=True)
class BlockInfo:
    """A block of a normalized program.

    Attributes:
        name: of the block; iters: its axes.
        block_rv: the block; reduction_block: whether it sums something up.
    """

    name: str
    iters: Sequence[IterInfo]
    block_rv: BlockRV
    reduction_block: bool = False

    def dom(self) -> list[int | PrimExpr]:
        """How long its axes are."""
        return [i.dom for i in self.iters]

    def dom_kind(self) -> str:
        """The kinds of its axes, such as ``SSR``."""
        return "".join(i.kind for i in self.iters)

    def is_injective(self) -> bool:
        """Whether all of its axes are spatial."""
        return set(self.dom_kind()) <= {"S"}

    def is_reduction(self) -> bool:
        """Whether it sums something up."""
        return self.reduction_block

    def loops(self, kind: str) -> list[LoopRV]:
        """The loops of its axes of a kind."""
        return [i.loop_rv for i in self.iters if i.kind == kind]

    def __str__(self) -> str:
        return f'BlockInfo("{self.name}", "{self.dom_kind()}", {self.dom()})'


SBlockInfo = BlockInfo  # TVM's newest name


def normalize_prim_func(sch: Schedule) -> list[BlockInfo] | None:
    """Give every block a loop for each axis, in their order; axes of one point go.

    None if there are no blocks, or one is no plain nest of loops that nothing is bound to.
    """
    found = []
    try:
        for block in sch.get_child_blocks(sch.get_block("root")):
            if any(sch.get(loop).thread_binding for loop in sch.get_loops(block)):
                return None
            _normalize(sch, block)
            found.append(_info(sch, block))
    except ScheduleError:
        return None
    return found or None


def _normalize(sch: Schedule, block: BlockRV) -> None:
    axes = sch.get(block).iter_vars
    kept = [n for n, axis in enumerate(axes) if _number(axis.dom.extent) != 1]
    if axes:
        sch.transform_block_layout(block, lambda *points: [points[n] for n in kept])


def _info(sch: Schedule, block: BlockRV) -> BlockInfo:
    statement = sch.get(block)
    axes, loops = statement.iter_vars, sch.get_loops(block)
    iters = [
        IterInfo(_KINDS.get(a.iter_type, "O"), a.var, _number(a.dom.extent), loop)
        for a, loop in zip(axes, loops[len(loops) - len(axes) :], strict=True)
    ]
    is_reduction = any(i.kind == "R" for i in iters)
    return BlockInfo(statement.name_hint, iters, block, is_reduction)


def _number(size: int | PrimExpr) -> int | PrimExpr:
    return int(size) if isinstance(size, (int, prim.IntImm)) else size


def extent_of(sch: Schedule, loop: LoopRV) -> int | PrimExpr:
    """How many steps a loop has, a number where that is known."""
    return _number(sch.get(loop).extent)


def axes_of(block: Block, term: PrimExpr) -> list[int]:
    """The numbers of the axes of a block that a term depends on."""
    named = {id(name) for name in free_names(Evaluate(term))}
    return [n for n, axis in enumerate(block.iter_vars) if id(axis.var) in named]


def axes_in(block: Block, region: BufferRegion) -> list[int]:
    """The numbers of the axes that index a buffer, dimension by dimension."""
    return [axis for run in region.region for axis in axes_of(block, run.min)]


def plain_axes(block: Block, region: BufferRegion) -> list[int] | None:
    """:func:`axes_in`, each once; None where an index is neither an axis nor a number."""
    for run in region.region:
        axes = axes_of(block, run.min)
        is_axis = axes and run.min is block.iter_vars[axes[0]].var
        if _number(run.extent) != 1 or (axes and not is_axis):
            return None
    found = axes_in(block, region)
    return found if len(set(found)) == len(found) else None


def detect_dominant_read(block: Block) -> BufferRegion:
    """What a block reads along most of its axes.

    Raises:
        ScheduleError: it reads nothing.
    """
    if not block.reads:
        raise ScheduleError(f"block `{block.name_hint}` reads nothing")
    return max(block.reads, key=lambda read: len(set(axes_in(block, read))))


def is_broadcast_epilogue(sch: Schedule, block: BlockRV, epilogue: BlockRV) -> bool:
    """Whether a block reads what another one writes for several of its points."""
    written = {w.buffer.name for w in sch.get(block).writes}
    statement = sch.get(epilogue)
    extents = (_number(a.dom.extent) for a in statement.iter_vars)
    longer = {n for n, extent in enumerate(extents) if extent != 1}
    reads = [r for r in statement.reads if r.buffer.name in written]
    return any(not longer.issubset(axes_in(statement, read)) for read in reads)
