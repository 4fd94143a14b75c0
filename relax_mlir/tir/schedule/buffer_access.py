"""Primitives that say what a block reads and writes, whatever its body tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError, shown
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.prim_text import text_of
from relax_mlir.objects.said_regions import axis_name, box_of, digest_of, said_of
from relax_mlir.objects.simplify import simplify
from relax_mlir.tir.schedule import accesses, edit, tree
from relax_mlir.tir.schedule.index_map import function_of_text
from relax_mlir.tir.schedule.state import ScheduleState

__all__ = ["Ranges", "annotate_buffer_access", "hide_buffer_access", "ranges_of"]


class Ranges:
    """The box that each point of a block touches, as a function of its axes.

    Attributes:
        variables: the axes.
        runs: of each dimension, where it begins and where it ends.
    """

    def __init__(
        self, variables: Sequence[Var], runs: Sequence[tuple[PrimExpr, PrimExpr]]
    ) -> None:
        self.variables, self.runs = list(variables), list(runs)

    def __call__(self, *axes: Any) -> list[tuple[PrimExpr, PrimExpr]]:
        """The box at a point."""
        values = dict(zip(self.variables, axes, strict=True))
        return [
            (prim.substitute(low, values), prim.substitute(high, values))
            for low, high in self.runs
        ]

    def __str__(self) -> str:
        names = ", ".join(v.name for v in self.variables)
        inner = ", ".join(f"({text_of(a)}, {text_of(b)})" for a, b in self.runs)
        return f"lambda {names}: [{inner}]"


def ranges_of(block: ir.Operation, given: Callable[..., Any] | str) -> Ranges:
    """The box that a function of the axes of a block gives.

    Raises:
        ValueError: it gives another number of dimensions than the block has axes.
        TypeError: it gives what is no index and no pair of them.
    """
    function = function_of_text(given) if isinstance(given, str) else given
    variables = [
        Var(name, dtype)
        for name, dtype in zip(
            tree.axis_names(block), tree.axis_dtypes(block), strict=True
        )
    ]
    found = list(function(*variables))
    if len(found) != len(variables):
        raise ValueError(
            f"annotate_buffer_access: {tree.describe(block)} has {len(variables)} axes: "
            f"expected as many ranges, got {len(found)}"
        )
    return Ranges(variables, [_pair(run) for run in found])


def _pair(run: Any) -> tuple[PrimExpr, PrimExpr]:
    if isinstance(run, (tuple, list)):
        if len(run) != 2:
            raise ValueError(
                "annotate_buffer_access: expected pairs of a begin and an end, got "
                f"{len(run)} numbers"
            )
        low, high = map(prim.convert, run)
        return low, high
    if isinstance(run, (PrimExpr, int)):
        return prim.convert(run), prim.convert(run) + 1
    raise TypeError(
        f"annotate_buffer_access: expected an index or a pair of them, got {shown(run)}"
    )


def annotate_buffer_access(
    state: ScheduleState,
    block: ir.Operation,
    number: int,
    kind: str,
    ranges: Ranges,
) -> None:
    """Say what a block touches; see :meth:`Schedule.annotate_buffer_access`."""
    where = "annotate_buffer_access"
    _check_number(block, number, kind, where)
    _check_rank(block, number, kind, ranges)
    names = {id(var): axis_name(axis) for axis, var in enumerate(ranges.variables)}
    runs = [
        Range.from_min_extent(low, simplify(high - low)) for low, high in ranges.runs
    ]
    box, digest = box_of(runs, names), digest_of(state.statement(block))
    with state.change(block):
        listed = _listed(block, kind)
        listed[number] = (listed[number][0], box)
        _say(block, kind, listed, digest)
        key = f"explicit_{kind}_region"
        listed = list(tree.annotations_of(block).get(key, ()))
        if number not in listed:
            edit.set_annotation(block, key, [*listed, number])


def _check_rank(block: ir.Operation, number: int, kind: str, ranges: Ranges) -> None:
    """Refuse a box of another rank than the buffer."""
    find = accesses.buffers_read if kind == "read" else accesses.buffers_written
    buffer = find(block)[number]
    rank = len(accesses.buffer_shape(buffer))
    if rank != len(ranges.runs):
        raise ScheduleError(
            f"annotate_buffer_access: {tree.describe(block)}: buffer "
            f"`{accesses.buffer_name(buffer)}` has {rank} dimensions: expected as many "
            f"ranges, got {len(ranges.runs)}"
        )


def hide_buffer_access(
    state: ScheduleState, block: ir.Operation, kind: str, numbers: Sequence[int]
) -> None:
    """Do as if a block did not touch buffers.

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
        listed = _listed(block, kind)
        _say(block, kind, [p for n, p in enumerate(listed) if n not in numbers])


def _listed(block: ir.Operation, kind: str) -> list[tuple[str, Any]]:
    """The buffers that a block reads or writes, and what is said of each."""
    said = said_of(block).get(f"{kind}s")
    if said is not None:
        return list(said)
    find = accesses.buffers_read if kind == "read" else accesses.buffers_written
    return [(f"{kind[0]}{number}", None) for number in range(len(find(block)))]


def _check_number(block: ir.Operation, number: int, kind: str, where: str) -> None:
    count = len(_listed(block, kind))
    if not 0 <= number < count:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} has {count} {kind} regions: expected a "
            f"number from 0 to {count - 1}, got {number}"
        )


def _say(
    block: ir.Operation,
    kind: str,
    listed: Sequence[tuple[str, Any]],
    digest: str | None = None,
) -> None:
    """Write to a block what it touches.

    Args:
        digest: of what the body tells; boxes do not hold where that is another one.
    """
    counts = [len(find(block)) for find in (accesses.reads, accesses.writes)]
    said = {**said_of(block), f"{kind}s": listed, "counts": counts}
    said |= {} if digest is None else {"body": digest}
    block.attributes[marks.TOUCHED] = to_attribute(said)
