"""Whether loops go on to overwrite what a block has read: it cannot be computed later."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import accesses, legality, regions, tree
from relax_mlir.tir.schedule.cache import reads_what_is_written
from relax_mlir.tir.schedule.decompose import symbols_in
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.state import (
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["check_any_order", "check_not_overwritten"]


def check_not_overwritten(block: ir.Operation, where: str) -> None:
    """Refuse to compute a block later than where it stands, if it then reads other values.

    That is so where a block in front of it, in a loop around both, writes what it reads
    anew in the next step: a prefix sum is such a pair.

    Raises:
        ScheduleError: elements may change, after the block has read them for the last time.
    """
    scope, loops = tree.scope_of(block), tree.enclosing_loops(block)
    blocks = accesses.scope_children(scope)
    read = accesses.buffers_read(block)
    for other in blocks[: blocks.index(block)]:
        around = tree.enclosing_loops(other)
        shared = [loop for loop in loops if loop in around]
        moving = _loops_used(block, shared)
        for buffer in accesses.buffers_written(other) if moving else ():
            if buffer in read and not (
                _repeats(other, buffer, shared)
                or _steps_apart(block, other, buffer, shared, moving)
            ):
                raise ScheduleError(
                    f"{where}: {tree.describe(other)} may overwrite "
                    f"`{accesses.buffer_name(buffer)}` in each step of "
                    f"{tree.describe(shared[0])}, after {tree.describe(block)} has read it: "
                    f"expected that {tree.describe(block)} may be computed later"
                )


def check_any_order(nest: Sequence[ir.Operation], where: str) -> None:
    """Refuse loops whose steps depend on one another through what several blocks touch.

    Raises:
        ScheduleError: a block may touch what another one writes in another step.
    """
    indices = Indices()
    blocks = tree.blocks_below(nest[-1])
    pairs = [(w, o) for w in blocks for o in blocks if w != o]
    for writer, other in pairs:
        touched = [*accesses.buffers_read(other), *accesses.buffers_written(other)]
        for buffer in accesses.buffers_written(writer):
            if buffer in touched and not (
                reads_what_is_written(nest[-1], other, writer, buffer, indices)
                and (
                    _repeats(writer, buffer, nest)
                    or _steps_apart(other, writer, buffer, nest, nest)
                )
            ):
                raise ScheduleError(
                    f"{where}: {tree.describe(other)} may touch elements of "
                    f"`{accesses.buffer_name(buffer)}` that {tree.describe(writer)} writes "
                    f"in another step of {tree.describe(nest[0])}: expected steps that do "
                    "not depend on one another"
                )


def _loops_used(
    block: ir.Operation, loops: Sequence[ir.Operation]
) -> list[ir.Operation]:
    """The loops on which a block, its axes, its conditions and inner loops depend.

    All of them, where it depends on what was read from memory.
    """
    scope = tree.scope_of(block)
    around = list(takewhile(lambda a: a != scope, tree.ancestors(block)))
    waiting = [v for op in [*tree.subtree(block), *around] for v in op.operands]
    body = set(tree.subtree(block))
    seen: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        is_made = value not in seen and not isinstance(value.owner, ir.Block)
        seen.add(value)
        if not is_made:
            continue
        maker = value.owner.operation
        if maker.name == "memref.load" and maker not in body:
            return list(loops)
        waiting += [v for op in tree.subtree(maker) for v in op.operands]
    return [loop for loop in loops if loop_var(loop) in seen]


def _repeats(
    writer: ir.Operation, buffer: ir.Value, shared: Sequence[ir.Operation]
) -> bool:
    """Whether a block writes the same value to an element whenever it writes it.

    The element stands for one point of it, which is computed of what no step changes.
    """
    indices = Indices()
    if legality.loop_used_inside(writer) is not None:
        return False
    if not _is_sole_writer(writer, buffer):
        return False
    if not (legality.is_complete(writer) or _sums_in_step(writer, shared)):
        return False
    in_loop = [
        b
        for b in accesses.scope_children(tree.scope_of(writer))
        if shared[0] in tree.enclosing_loops(b)
    ]
    changed = {w for b in in_loop for w in accesses.buffers_written(b)}
    if changed.intersection(accesses.buffers_read(writer)):
        return False
    axes = zip(tree.kinds_of(writer), extents_of(indices, writer), strict=True)
    wanted = {n for n, (kind, e) in enumerate(axes) if kind == "S" and e != 1}
    count = len(tree.kinds_of(writer))
    arguments = [a for r in writer.regions for b in r.blocks for a in b.arguments]
    for access in accesses.accesses_in(writer):
        if access.is_write and access.buffer == buffer:
            places = [v for v in access.index_values if v in arguments]
            if access.is_opaque or wanted - {
                arguments.index(v) % count for v in places
            }:
                return False
    return True


def _sums_in_step(writer: ir.Operation, shared: Sequence[ir.Operation]) -> bool:
    """Whether a block makes whole sums in each step of loops."""
    indices = Indices()
    names = {indices.symbol(loop_var(loop)) for loop in shared}
    inner = [loop for loop in tree.enclosing_loops(writer) if loop not in shared]
    return (
        tree.init_of(writer) is not None
        and not set(tree.kinds_of(writer)) - {"S", "R"}
        and tree.guard_of(writer) is None
        and not names & symbols_in(writer, indices, "R")
        and bool(inner)
        and legality.has_affine_bindings(writer, below=inner[0], may_overlap=False)
    )


def _is_sole_writer(writer: ir.Operation, buffer: ir.Value) -> bool:
    scope = tree.scope_of(writer)
    is_own = buffer in accesses.own_buffers(scope)
    return is_own and accesses.writers_of(scope, buffer) == [writer]


def _steps_apart(
    block: ir.Operation,
    writer: ir.Operation,
    buffer: ir.Value,
    shared: Sequence[ir.Operation],
    moving: Sequence[ir.Operation],
) -> bool:
    """Whether a block reads what its own step of loops writes, and no other step.

    Args:
        shared: the loops around both.
        moving: those of them on which the block depends; it reads anew in the others.
    """
    indices = Indices()
    inside = set(tree.subtree(shared[-1])) - {shared[-1]}
    still = [loop for loop in shared if loop not in moving]
    limits = limits_at(indices, shared[-1])

    def box(op: ir.Operation, *, is_write: bool) -> list[regions.Run] | None:
        found = [
            regions.region_of(
                access, indices, inside.__contains__, relaxes=still.__contains__
            )
            for access in accesses.accesses_in(op)
            if access.buffer == buffer and access.is_write == is_write
        ]
        return regions.hull(found, limits)

    made, wanted = box(writer, is_write=True), box(block, is_write=False)
    bounds = {indices.symbol(loop_var(o)): loop_bounds(indices, o) for o in moving}
    if made is None or any(low != 0 for low, _ in bounds.values()):
        return False
    steps = {name: extent for name, (_, extent) in bounds.items() if extent != 1}
    if not legality.are_apart(made, steps, limits):
        return False
    if _is_sole_writer(writer, buffer):
        return True  # else it would read what nothing wrote
    tops = legality.tops_at(indices, shared[-1])
    return wanted is None or all(
        legality.is_inside(narrow, wide, limits, tops)
        for wide, narrow in zip(made, wanted, strict=True)
    )
