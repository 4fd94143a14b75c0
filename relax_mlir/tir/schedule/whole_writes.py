"""Whether all elements of a box are written: what copies back of a cache may store.

An element that a block leaves out, by a condition or between those that it writes, keeps
its value from before, which a cache has not got.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    dependences,
    legality,
    tree,
)
from relax_mlir.tir.schedule.accesses import Access
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    limits_at,
)

__all__ = ["check_written", "is_conditional"]


def check_written(
    writer: ir.Operation,
    place: ir.Operation,
    buffer: ir.Value,
    box: Sequence[Run],
    within: Callable[[Sequence[Run]], Sequence[Run]],
    indices: Indices,
    where: str,
) -> None:
    """Refuse a box of a buffer with values from before, some of which nothing writes.

    Args:
        writer: the statement that writes the buffer.
        place: the loop or scope, in each step of which the box is copied.
        box: what is copied.
        within: the part of a box that lies in the buffer.

    Raises:
        ScheduleError: one store alone does not surely write all of the box.
    """
    scope = tree.scope_of(writer)
    if buffer in accesses.own_buffers(scope):
        return
    found = accesses.accesses_in(writer)
    stores = [a for a in found if a.buffer == buffer and a.is_write]
    if any(store.is_opaque for store in stores):
        return  # a call is taken at its word
    limits, tops = limits_at(indices, place), legality.tops_at(indices, place)
    for store in stores:
        made = dependences.surely_written(store, place, indices)
        if made is not None and legality.is_box_inside(box, within(made), limits, tops):
            return
    raise ScheduleError(
        f"{where}: {tree.describe(writer)} may leave out elements of "
        f"`{accesses.buffer_name(buffer)}`, which has values from outside of the scope: "
        "expected a store that writes all that is copied, under no condition"
    )


def is_conditional(access: Access, block: ir.Operation) -> bool:
    """Whether a condition or a loop that is not counted guards an access in a block."""
    for around in tree.ancestors(access.op):
        if around == block:
            return False
        if not (tree.is_loop(around) or tree.is_block(around) or tree.is_where(around)):
            return True
    return True
