"""Block and iteration-variable analysis for schedule rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.errors import ScheduleError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.stmt.buffer import BufferRegion
from relax_mlir.objects.stmt.functor import free_names
from relax_mlir.objects.stmt.statements import Block, Evaluate
from relax_mlir.tvm.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "BlockInfo",
    "IterInfo",
    "SBlockInfo",
    "detect_dominant_read",
    "distinct_region_iter_vars",
    "is_broadcast_epilogue",
    "loop_extent",
    "normalize_prim_func",
    "region_iter_vars",
    "used_iter_vars",
]

_KINDS = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}


@dataclass(frozen=True)
class IterInfo:
    """An iteration variable of a block, and the loop it is bound to.

    Attributes:
        kind: ``S`` (spatial), ``R`` (reduction) or ``O`` (other).
        var: the iteration variable; dom: its extent, an ``int`` if it is constant.
        loop_rv: the loop.
    """

    kind: str
    var: Var
    dom: int | PrimExpr
    loop_rv: LoopRV


@dataclass(frozen=True)
class BlockInfo:
    """A block of a normalized PrimFunc.

    Attributes:
        name: name hint of the block; iters: its iteration variables.
        block_rv: the block; reduction_block: whether it is a reduction.
    """

    name: str
    iters: Sequence[IterInfo]
    block_rv: BlockRV
    reduction_block: bool = False

    def dom(self) -> list[int | PrimExpr]:
        """Extents of the iteration variables."""
        return [i.dom for i in self.iters]

    def dom_kind(self) -> str:
        """Kinds of the iteration variables as a string, such as ``SSR``."""
        return "".join(i.kind for i in self.iters)

    def is_injective(self) -> bool:
        """Whether all iteration variables are spatial."""
        return set(self.dom_kind()) <= {"S"}

    def is_reduction(self) -> bool:
        """Whether the block is a reduction."""
        return self.reduction_block

    def loops(self, kind: str) -> list[LoopRV]:
        """Loops of the iteration variables of a kind."""
        return [i.loop_rv for i in self.iters if i.kind == kind]

    def __str__(self) -> str:
        return f'BlockInfo("{self.name}", "{self.dom_kind()}", {self.dom()})'


SBlockInfo = BlockInfo  # the name in newer TVM


def normalize_prim_func(sch: Schedule) -> list[BlockInfo] | None:
    """Normalize every block to one loop per iteration variable, in block order.

    Iteration variables of extent 1 are removed.

    Returns:
        The blocks; None if there are none, or if one is not a perfect loop nest without
        thread bindings.
    """
    infos = []
    try:
        for block in sch.get_child_blocks(sch.get_block("root")):
            if any(sch.get(loop).thread_binding for loop in sch.get_loops(block)):
                return None
            _normalize(sch, block)
            infos.append(_info(sch, block))
    except ScheduleError:
        return None
    return infos or None


def _normalize(sch: Schedule, block: BlockRV) -> None:
    axes = sch.get(block).iter_vars
    kept = [n for n, axis in enumerate(axes) if _int_if_constant(axis.dom.extent) != 1]
    if axes:
        sch.transform_block_layout(block, lambda *points: [points[n] for n in kept])


def _info(sch: Schedule, block: BlockRV) -> BlockInfo:
    block_stmt = sch.get(block)
    axes, loops = block_stmt.iter_vars, sch.get_loops(block)
    iters = [
        IterInfo(
            _KINDS.get(a.iter_type, "O"), a.var, _int_if_constant(a.dom.extent), loop
        )
        for a, loop in zip(axes, loops[len(loops) - len(axes) :], strict=True)
    ]
    is_reduction = any(i.kind == "R" for i in iters)
    return BlockInfo(block_stmt.name_hint, iters, block, is_reduction)


def _int_if_constant(extent: int | PrimExpr) -> int | PrimExpr:
    return int(extent) if isinstance(extent, (int, prim.IntImm)) else extent


def loop_extent(sch: Schedule, loop: LoopRV) -> int | PrimExpr:
    """Extent of a loop, an ``int`` if it is constant."""
    return _int_if_constant(sch.get(loop).extent)


def used_iter_vars(block: Block, expr: PrimExpr) -> list[int]:
    """Positions of the iteration variables of a block that an expression uses."""
    named = {id(name) for name in free_names(Evaluate(expr))}
    return [n for n, axis in enumerate(block.iter_vars) if id(axis.var) in named]


def region_iter_vars(block: Block, region: BufferRegion) -> list[int]:
    """Positions of the iteration variables that index a region, by buffer dimension."""
    return [
        axis for bounds in region.region for axis in used_iter_vars(block, bounds.min)
    ]


def distinct_region_iter_vars(block: Block, region: BufferRegion) -> list[int] | None:
    """Positions of the iteration variables that index a region, each at most once.

    None if an index is neither a bare iteration variable nor constant, or if one
    iteration variable indexes two dimensions.
    """
    for bounds in region.region:
        axes = used_iter_vars(block, bounds.min)
        is_axis = axes and bounds.min is block.iter_vars[axes[0]].var
        if _int_if_constant(bounds.extent) != 1 or (axes and not is_axis):
            return None
    iter_vars = region_iter_vars(block, region)
    return iter_vars if len(set(iter_vars)) == len(iter_vars) else None


def detect_dominant_read(block: Block) -> BufferRegion:
    """The read region indexed by the most iteration variables of a block.

    Raises:
        ScheduleError: the block has no reads.
    """
    if not block.reads:
        raise ScheduleError(
            f"block `{block.name_hint}`: expected at least one read, got none"
        )
    return max(block.reads, key=lambda read: len(set(region_iter_vars(block, read))))


def is_broadcast_epilogue(sch: Schedule, block: BlockRV, epilogue: BlockRV) -> bool:
    """Whether an epilogue broadcasts the result of a block: reads elements repeatedly."""
    written = {w.buffer.name for w in sch.get(block).writes}
    block_stmt = sch.get(epilogue)
    extents = (_int_if_constant(a.dom.extent) for a in block_stmt.iter_vars)
    non_unit = {n for n, extent in enumerate(extents) if extent != 1}
    reads = [r for r in block_stmt.reads if r.buffer.name in written]
    return any(
        not non_unit.issubset(region_iter_vars(block_stmt, read)) for read in reads
    )
