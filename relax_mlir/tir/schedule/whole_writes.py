"""Whether all elements of a box are written: what copies back of a cache may store.

An element that a block leaves out, by a condition or between those that it writes, keeps
its value from before, which a cache has not got.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    affine,
    dependences,
    legality,
    regions,
    tree,
)
from relax_mlir.tir.schedule.accesses import Access
from relax_mlir.tir.schedule.axis_conditions import axis_conditions
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
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
    inside = set(tree.subtree(place)) - {place}
    found = accesses.accesses_in(writer)
    stores = [a for a in found if a.buffer == buffer and a.is_write]
    if any(store.is_opaque for store in stores):
        return  # a call is taken at its word
    for store in stores:
        region = regions.region_of(store, indices, lambda op: op in inside)
        if (
            list(within(region)) == list(box)
            and _writes_product(store, scope, indices, where)
            and (place == scope or _writes_in_step(store, place, box, within, indices))
        ):
            return
    raise ScheduleError(
        f"{where}: {tree.describe(writer)} may leave out elements of "
        f"`{accesses.buffer_name(buffer)}`, which has values from outside of the scope: "
        "expected a store that writes all that is copied, under no condition"
    )


def _writes_in_step(
    store: Access,
    place: ir.Operation,
    box: Sequence[Run],
    within: Callable[[Sequence[Run]], Sequence[Run]],
    indices: Indices,
) -> bool:
    """Whether a store writes all of a box in each step of a loop around it."""
    made = dependences.surely_written(store, place, indices)
    limits, tops = limits_at(indices, place), legality.tops_at(indices, place)
    return made is not None and legality.is_box_inside(box, within(made), limits, tops)


def is_conditional(access: Access, block: ir.Operation) -> bool:
    """Whether a condition or a loop that is not counted guards an access in a block."""
    for around in tree.ancestors(access.op):
        if around == block:
            return False
        if not (tree.is_loop(around) or tree.is_block(around) or tree.is_where(around)):
            return True
    return True


def _writes_product(
    access: Access, scope: ir.Operation, indices: Indices, where: str
) -> bool:
    """Whether a store writes each combination of the values that its indices have."""
    around = list(takewhile(lambda a: a != scope, tree.ancestors(access.op)))
    blocks = [a for a in around if tree.is_block(a)]
    if is_conditional(access, scope):
        return False
    values: list[Dim] = list(access.indices(indices))
    extents: dict[str, Dim] = {}
    for op in around[: around.index(blocks[-1]) + 1]:
        if tree.is_loop(op):
            low, extent = loop_bounds(indices, op)
            extents |= {indices.symbol(loop_var(op)): extent}
            known = {indices.symbol(loop_var(op)): low}
            values = _moved(values, known)
        elif tree.is_block(op):
            if not _visits_all(op, indices, where):
                return False
            names = [indices.symbol(a) for a in tree.body(op).arguments]
            if op == blocks[-1]:
                extents |= dict(zip(names, extents_of(indices, op), strict=True))
                starts = dict(zip(names, tree.axis_starts(op), strict=True))
                values = _moved(values, starts)
            else:
                bound = dict(
                    zip(names, map(indices.of, tree.bindings(op)), strict=True)
                )
                values = [substitute(v, bound) for v in values]
    if any(extents.keys() & set(symbols_of(extent)) for extent in extents.values()):
        return False
    used = {name for value in values for name in symbols_of(value)} - extents.keys()
    if any(not isinstance(indices.values[name].owner, ir.Block) for name in used):
        return False  # an index is loaded, or chosen
    rising = [-v if affine.is_falling(v, extents) else v for v in values]
    return affine.is_affine(rising, extents, limits_at(indices, access.op))


def _moved(values: Sequence[Dim], starts: dict[str, Dim]) -> list[Dim]:
    """Indices in variables that begin at 0."""
    known = {n: dims.symbol(n) + low for n, low in starts.items() if low != 0}
    return [substitute(v, known) for v in values]


def _visits_all(block: ir.Operation, indices: Indices, where: str) -> bool:
    """Whether the loops around a block visit all combinations of values of its axes."""
    try:
        legality.check_axis_sizes(block, where)
        left_out = axis_conditions(block, indices, where)
    except ScheduleError:
        return False
    return not left_out and legality.has_affine_bindings(block)
