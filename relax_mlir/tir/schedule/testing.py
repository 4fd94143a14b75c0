"""Checks for tests of schedules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expression_evaluator import ExpressionEvaluator
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
        _Lines(schedule).play(trace.as_python())
    else:
        raise ValueError(f"text_format: expected `python` or `json`, got `{text}`")


class _Lines(ExpressionEvaluator):
    """Plays the lines of a trace: calls of methods of a schedule.

    Args:
        schedule: on which they are played.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._values: dict[str, Any] = {"T": SCRIPT_NAMES, "sch": schedule}

    def lookup(self, name: str) -> Any:
        if name not in self._values:
            raise NameError(f"name `{name}` is not defined", name=name)
        return self._values[name]

    def play(self, lines: Sequence[str]) -> None:
        """Play lines, and keep what they give under its names."""
        for statement in ast.parse("\n".join(lines)).body:
            if isinstance(statement, ast.Expr):
                self.value(statement.value)
            elif isinstance(statement, ast.Assign):
                (target,) = statement.targets
                given = self.value(statement.value)
                self._values |= dict(_named(target, given))
            else:
                raise ValueError(f"trace: expected calls, got {ast.unparse(statement)}")


def _named(target: ast.expr, given: Any) -> Iterator[tuple[str, Any]]:
    """The variables that a line of a trace names."""
    if isinstance(target, ast.Name):
        yield target.id, given
    elif isinstance(target, ast.Tuple):
        for part, value in zip(target.elts, given, strict=True):
            yield from _named(part, value)
