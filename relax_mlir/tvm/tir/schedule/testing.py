"""Assertions for tests of schedules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expression_evaluator import ExpressionEvaluator
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.tir.schedule.index_map import SCRIPT_NAMES
from relax_mlir.tvm.tir.schedule.schedule import Schedule
from relax_mlir.tvm.tir.schedule.trace import Trace

__all__ = ["assert_structural_equal_ignore_global_symbol", "verify_trace_roundtrip"]


def assert_structural_equal_ignore_global_symbol(
    func1: PrimFunc, func2: PrimFunc, *args: Any, **options: Any
) -> None:
    """Assert that two PrimFuncs are structurally equal up to their names.

    Raises:
        ValueError: they differ; names the first difference.
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
    """Replay the trace of a schedule on the initial module.

    Args:
        sch: the schedule.
        mod: the initial module.
        debug_mask: accepted for compatibility.
        text_format: the serialisation formats to go through.

    Returns:
        The new schedule.

    Raises:
        ValueError: the module or the trace differs.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    made = sch
    for text in formats:
        made = Schedule(mod, debug_mask=debug_mask)
        _replay(sch.trace, made, text)
        assert_structural_equal(made.mod, sch.mod)
        replayed, original = made.trace.as_python(), sch.trace.as_python()
        if replayed != original:
            raise ValueError(f"traces differ: expected {original}, got {replayed}")
    return made


def _replay(trace: Trace, schedule: Schedule, text: str) -> None:
    if text == "json":
        Trace.apply_json_to_schedule(trace.as_json(), schedule)
    elif text == "python":
        _TraceReplayer(schedule).replay(trace.as_python())
    else:
        raise ValueError(f"text_format: expected `python` or `json`, got `{text}`")


class _TraceReplayer(ExpressionEvaluator):
    """Replays the lines of a Python trace.

    Args:
        schedule: the schedule to replay on.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._values: dict[str, Any] = {"T": SCRIPT_NAMES, "sch": schedule}

    def lookup(self, name: str) -> Any:
        if name not in self._values:
            raise NameError(f"name `{name}` is not defined", name=name)
        return self._values[name]

    def replay(self, lines: Sequence[str]) -> None:
        """Replay lines and bind their results to names."""
        for statement in ast.parse("\n".join(lines)).body:
            if isinstance(statement, ast.Expr):
                self.value(statement.value)
            elif isinstance(statement, ast.Assign):
                (target,) = statement.targets
                results = self.value(statement.value)
                self._values |= dict(_named(target, results))
            else:
                raise ValueError(f"trace: expected calls, got {ast.unparse(statement)}")


def _named(target: ast.expr, given: Any) -> Iterator[tuple[str, Any]]:
    """The names that an assignment target binds, with their values."""
    if isinstance(target, ast.Name):
        yield target.id, given
    elif isinstance(target, ast.Tuple):
        for part, value in zip(target.elts, given, strict=True):
            yield from _named(part, value)
