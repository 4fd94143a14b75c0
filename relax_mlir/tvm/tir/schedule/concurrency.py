"""Legality of parallel, vectorized and thread-bound loops: their iterations run concurrently."""

from __future__ import annotations

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic.symbols import symbols_of
from relax_mlir.tvm.tir.schedule import dependences, legality, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.state import loop_var

__all__ = ["check_loop_kind", "check_loops"]

_CONCURRENT = ("parallel", "vectorized", "thread_binding")


def check_loop_kind(loop: ir.Operation, kind: str, thread: str) -> None:
    """Reject a kind that runs the iterations of a loop concurrently, if they depend.

    Args:
        thread: the thread to bind the loop to, if any.

    Raises:
        ScheduleError: iterations depend on one another, or the bindings of a block are not
            affine.
    """
    where = f"{kind}: {tree.describe(loop)}"
    for block in tree.blocks_below(loop):
        if not legality.has_affine_bindings(block, may_overlap=True):
            raise ScheduleError(
                f"{where}: the bindings of {tree.describe(block)} are not quasi-affine"
            )
        legality.check_complete_or_reduction(block, where, loop)
    _check_independent(loop, kind, thread, where)


def check_loops(function: ir.Operation, before: ir.Operation) -> None:
    """Reject a change that makes iterations of concurrent loops depend on one another.

    Args:
        function: the PrimFunc after the change.
        before: the PrimFunc before it. Loops that were illegal in it may stay so.

    Raises:
        ScheduleError: iterations of a loop depend on one another.
    """
    for loop in _concurrent_loops(function):
        error = _violation(loop)
        if error is not None and not any(
            tree.loop_name(other) == tree.loop_name(loop) and _violation(other)
            for other in _concurrent_loops(before)
        ):
            raise error


def _concurrent_loops(function: ir.Operation) -> list[ir.Operation]:
    return [
        op
        for op in tree.subtree(function)
        if tree.is_loop(op) and tree.loop_kind(op) in _CONCURRENT
    ]


def _violation(loop: ir.Operation) -> ScheduleError | None:
    kind, thread = tree.loop_kind(loop), tree.string_attr(loop, attribute_names.THREAD)
    where = f"schedule: {tree.describe(loop)} is {kind.replace('_', ' ')}"
    try:
        _check_independent(loop, kind, thread, where)
    except ScheduleError as error:
        return error
    return None


def _check_independent(loop: ir.Operation, kind: str, thread: str, where: str) -> None:
    across_threads = kind == "thread_binding" and thread.startswith("threadIdx")
    for block in tree.blocks_below(loop):
        indices = IndexSymbols()
        name = indices.symbol(loop_var(loop))
        for value, axis in zip(
            tree.bindings(block), tree.iter_kinds(block), strict=True
        ):
            if name not in symbols_of(indices.of(value)):
                continue
            if axis != "S" and not (axis == "R" and across_threads):
                raise ScheduleError(
                    f"{where}: {tree.describe(block)} has a reduce iter var that depends on "
                    "the loop: expected only spatial ones"
                )
    dependences.check_parallel(loop, thread, where)
