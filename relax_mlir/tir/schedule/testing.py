"""Checks for tests of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.structure import assert_structural_equal
from relax_mlir.tir.schedule.index_map import SCRIPT_NAMES
from relax_mlir.tir.schedule.schedule import Schedule
from relax_mlir.tir.schedule.trace import Trace

__all__ = ["assert_structural_equal_ignore_global_symbol", "verify_trace_roundtrip"]


def assert_structural_equal_ignore_global_symbol(
    func1: PrimFunc, func2: PrimFunc, *args: Any, **options: Any
) -> None:
    """Check that two programs are the same but for names, their own among them.

    Raises:
        ValueError: they are not; says where the first difference is.
    """
    first, second = (f.with_attr("global_symbol", "main") for f in (func1, func2))
    assert_structural_equal(first, second, *args, **options)


def verify_trace_roundtrip(
    sch: Schedule,
    mod: IRModule | PrimFunc,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Play the trace of a schedule on the module that it began with.

    Args:
        sch: the schedule.
        mod: the module.
        debug_mask: what to verify.
        text_format: by which texts of the trace.

    Returns:
        The new schedule.

    Raises:
        ValueError: it made another module, or another trace.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    made = sch
    for text in formats:
        made = Schedule(mod, debug_mask=debug_mask)
        _play(sch.trace, made, text)
        assert_structural_equal(made.mod, sch.mod)
        ours, theirs = made.trace.as_python(), sch.trace.as_python()
        if ours != theirs:
            raise ValueError(f"traces differ: expected {theirs}, got {ours}")
    return made


def _play(trace: Trace, schedule: Schedule, text: str) -> None:
    if text == "json":
        Trace.apply_json_to_schedule(trace.as_json(), schedule)
    elif text == "python":
        exec("\n".join(trace.as_python()), {"T": SCRIPT_NAMES, "sch": schedule})
    else:
        raise ValueError(f"text_format: expected `python` or `json`, got `{text}`")
