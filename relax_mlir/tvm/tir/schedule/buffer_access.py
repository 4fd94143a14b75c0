"""Primitives that override the read and write regions of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.prim.script_text import prim_expr_script
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.objects.stmt.explicit_regions import (
    axis_name,
    explicit_regions_attr,
    region_text,
    regions_digest,
)
from relax_mlir.tvm.tir.schedule import accesses, edit, tree
from relax_mlir.tvm.tir.schedule.index_map import function_of_text
from relax_mlir.tvm.tir.schedule.state import ScheduleState

__all__ = [
    "AccessRegion",
    "access_region_of",
    "annotate_buffer_access",
    "hide_buffer_access",
]


class AccessRegion:
    """The region that a block instance accesses, as a function of the iter vars.

    Attributes:
        variables: the iter vars.
        bounds: the begin and end of each dimension.
    """

    def __init__(
        self, variables: Sequence[Var], bounds: Sequence[tuple[PrimExpr, PrimExpr]]
    ) -> None:
        self.variables, self.bounds = list(variables), list(bounds)

    def __call__(self, *axes: Any) -> list[tuple[PrimExpr, PrimExpr]]:
        """The region for given iter var values."""
        values = dict(zip(self.variables, axes, strict=True))
        return [
            (prim.substitute(low, values), prim.substitute(high, values))
            for low, high in self.bounds
        ]

    def __str__(self) -> str:
        names = ", ".join(v.name for v in self.variables)
        inner = ", ".join(
            f"({prim_expr_script(a)}, {prim_expr_script(b)})" for a, b in self.bounds
        )
        return f"lambda {names}: [{inner}]"


def access_region_of(
    block: ir.Operation, given: Callable[..., Any] | str
) -> AccessRegion:
    """Evaluates a user function from the iter vars of a block to a region.

    Raises:
        ValueError: the number of dimensions is not the number of iter vars of the block.
        TypeError: an entry is neither an index nor a pair of them.
    """
    function = function_of_text(given) if isinstance(given, str) else given
    variables = [
        Var(name, dtype)
        for name, dtype in zip(
            tree.iter_var_names(block), tree.iter_var_dtypes(block), strict=True
        )
    ]
    found = list(function(*variables))
    if len(found) != len(variables):
        raise ValueError(
            f"annotate_buffer_access: {tree.describe(block)} has {len(variables)} axes: "
            f"expected {len(variables)} ranges, got {len(found)}"
        )
    return AccessRegion(variables, [_pair(bound) for bound in found])


def _pair(bound: Any) -> tuple[PrimExpr, PrimExpr]:
    if isinstance(bound, (tuple, list)):
        if len(bound) != 2:
            raise ValueError(
                "annotate_buffer_access: expected pairs of a begin and an end, got "
                f"{len(bound)} numbers"
            )
        low, high = map(prim.convert, bound)
        return low, high
    if isinstance(bound, (PrimExpr, int)):
        return prim.convert(bound), prim.convert(bound) + 1
    raise TypeError(
        f"annotate_buffer_access: expected an index or a pair of them, got {short_repr(bound)}"
    )


def annotate_buffer_access(
    state: ScheduleState,
    block: ir.Operation,
    number: int,
    kind: str,
    ranges: AccessRegion,
) -> None:
    """Set a read or write region; see :meth:`Schedule.annotate_buffer_access`."""
    where = "annotate_buffer_access"
    _check_number(block, number, kind, where)
    _check_rank(block, number, kind, ranges)
    names = {id(var): axis_name(axis) for axis, var in enumerate(ranges.variables)}
    bounds = [
        Range.from_min_extent(low, simplify(high - low)) for low, high in ranges.bounds
    ]
    box, digest = region_text(bounds, names), regions_digest(state.statement(block))
    with state.change(block):
        declared = _declared_regions(block, kind)
        declared[number] = (declared[number][0], box)
        _set_regions(block, kind, declared, digest)
        key = f"explicit_{kind}_region"
        declared = list(tree.annotations_of(block).get(key, ()))
        if number not in declared:
            edit.set_annotation(block, key, [*declared, number])


def _check_rank(
    block: ir.Operation, number: int, kind: str, ranges: AccessRegion
) -> None:
    """Reject a region whose rank differs from that of the buffer."""
    find = accesses.buffers_read if kind == "read" else accesses.buffers_written
    buffer = find(block)[number]
    rank = len(accesses.buffer_shape(buffer))
    if rank != len(ranges.bounds):
        raise ScheduleError(
            f"annotate_buffer_access: {tree.describe(block)}: buffer "
            f"`{accesses.buffer_name(buffer)}` has {rank} dimensions: expected {rank} "
            f"ranges, got {len(ranges.bounds)}"
        )


def hide_buffer_access(
    state: ScheduleState, block: ir.Operation, kind: str, numbers: Sequence[int]
) -> None:
    """Remove buffers from the read or write regions of a block.

    See :meth:`Schedule.unsafe_hide_buffer_access`.
    """
    where = "unsafe_hide_buffer_access"
    if kind not in ("read", "write"):
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a buffer type `read` or `write`, "
            f"got `{kind}`"
        )
    for number in numbers:
        _check_number(block, number, kind, where)
    with state.change(block):
        listed = _declared_regions(block, kind)
        _set_regions(block, kind, [p for n, p in enumerate(listed) if n not in numbers])


def _declared_regions(block: ir.Operation, kind: str) -> list[tuple[str, Any]]:
    """The declared or inferred read or write regions of a block: buffers and boxes."""
    declared = explicit_regions_attr(block).get(f"{kind}s")
    if declared is not None:
        return list(declared)
    find = accesses.buffers_read if kind == "read" else accesses.buffers_written
    return [(f"{kind[0]}{number}", None) for number in range(len(find(block)))]


def _check_number(block: ir.Operation, number: int, kind: str, where: str) -> None:
    count = len(_declared_regions(block, kind))
    if not 0 <= number < count:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} has {count} {kind} regions: expected a "
            f"number from 0 to {count - 1}, got {number}"
        )


def _set_regions(
    block: ir.Operation,
    kind: str,
    listed: Sequence[tuple[str, Any]],
    digest: str | None = None,
) -> None:
    """Store the declared read or write regions of a block.

    Args:
        digest: the digest of the body; the regions are valid only as long as it matches.
    """
    counts = [
        len(find(block)) for find in (accesses.inferred_reads, accesses.inferred_writes)
    ]
    declared = {**explicit_regions_attr(block), f"{kind}s": listed, "counts": counts}
    declared |= {} if digest is None else {"body": digest}
    block.attributes[attribute_names.TOUCHED] = to_attribute(declared)
