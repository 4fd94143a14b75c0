"""Complete-write check: whether a cache that is copied back is written everywhere.

An element that a block leaves out, by a predicate or a gap, keeps its earlier value, which the
cache lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    legality,
    tree,
)
from relax_mlir.tvm.tir.schedule.accesses import Access
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import limits_at

__all__ = ["check_complete_write", "is_conditional"]


def check_complete_write(
    writer: ir.Operation,
    scope_or_loop: ir.Operation,
    buffer: ir.Value,
    box: Sequence[Interval],
    within: Callable[[Sequence[Interval]], Sequence[Interval]],
    indices: IndexSymbols,
    where: str,
) -> None:
    """Reject boxes that are not written completely, of buffers with earlier values.

    Args:
        writer: the statement that writes the buffer.
        scope_or_loop: the loop or scope in each iteration of which the box is copied.
        box: the copied region.
        within: clips a box to the buffer.

    Raises:
        ScheduleError: no single store provably writes the whole box.
    """
    scope = tree.scope_of(writer)
    if buffer in accesses.allocated_buffers(scope):
        return
    found = accesses.accesses_in(writer)
    stores = [a for a in found if a.buffer == buffer and a.is_write]
    if any(store.is_opaque for store in stores):
        return  # the region of a call is trusted
    limits, upper_bounds = (
        limits_at(indices, scope_or_loop),
        legality.upper_bounds_at(indices, scope_or_loop),
    )
    for store in stores:
        written = dependences.must_write_region(store, scope_or_loop, indices)
        if written is not None and legality.is_box_inside(
            box, within(written), limits, upper_bounds
        ):
            return
    raise ScheduleError(
        f"{where}: {tree.describe(writer)} may leave out elements of "
        f"`{accesses.buffer_name(buffer)}`, which has values from outside of the scope: "
        "expected an unconditional store that writes all that is copied"
    )


def is_conditional(access: Access, block: ir.Operation) -> bool:
    """Whether a branch or a while loop guards an access in a block."""
    for around in tree.ancestors(access.op):
        if around == block:
            return False
        if not (
            tree.is_loop(around) or tree.is_block(around) or tree.is_predicate(around)
        ):
            return True
    return True
