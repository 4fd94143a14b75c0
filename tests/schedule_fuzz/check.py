"""Applies steps to a PrimFunc, and compares the result with the original."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir import Schedule
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.differential.check import guarded
from tests.schedule_fuzz.programs import Param, Program, draw_program
from tests.schedule_fuzz.steps import LOOKS, MissingError, Step, Stepper, draw_steps
from tests.tvm.tir.schedule.evaluate import Evaluation, Order, interpret

__all__ = ["Case", "Result", "Settings", "check", "draw", "draw_and_check"]

_LEAST_APPLIED = 5
_MOST_CALLS = 80
_AT_ONCE = ("T.parallel", "T.vectorized", "T.thread_binding")
_FLOATS = ("bfloat16", "float16", "float32", "float64")  # coarsest first


@dataclass(frozen=True)
class Settings:
    """How a scheduled PrimFunc is run.

    Attributes:
        seed: the seed of its inputs.
        integers: whether floats are small integers, whose sums are exact.
        guards: whether it runs between guard pages.
        threads: the number of threads.
        trace: the serialisation format through which its trace is replayed.
        gpu: whether loops stay bound to threads; it is interpreted, not compiled.
    """

    seed: int = 0
    integers: bool = True
    guards: bool = False
    threads: int = 1
    trace: str = "python"
    gpu: bool = False

    @staticmethod
    def draw(rng: random.Random) -> Settings:
        """Random settings."""
        return Settings(
            rng.randrange(1 << 30),
            rng.random() < 0.75,
            rng.random() < 0.25,
            rng.choice((1, 1, 2)),
            rng.choice(("python", "json", "instructions")),
            rng.random() < 0.2,
        )


@dataclass(frozen=True)
class Case:
    """A PrimFunc, primitive calls, and settings."""

    program: Program
    steps: tuple[Step, ...]
    settings: Settings

    def to_json(self) -> str:
        """The case as text."""
        program = asdict(self.program)
        script = program.pop("script")
        head = json.dumps({"settings": asdict(self.settings), **program})
        steps = [step.to_json() for step in self.steps]
        return "\n".join([head, *steps, "", script])

    @staticmethod
    def from_json(text: str) -> Case:
        """Parses the result of :meth:`to_json`."""
        lines, _, script = text.partition("\n\n")
        head, *steps = lines.splitlines()
        given = json.loads(head)
        params = tuple(
            replace(Param(**p), shape=tuple(p["shape"])) for p in given["params"]
        )
        program = Program(script, params, given["outputs"], given["decides"])
        settings = Settings(**given["settings"])
        return Case(program, tuple(map(Step.from_json, steps)), settings)


@dataclass
class Result:
    """The result of a case.

    Attributes:
        outcome: ``ok``; ``refused`` if the compiler rejects the PrimFunc; ``unstable`` if
            values cannot be compared; or the failure.
        applied: how often each primitive was applied.
        refused: how often each primitive was rejected.
        steps: the calls that were applied.
    """

    outcome: str = "ok"
    applied: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    steps: list[Step] = field(default_factory=list)

    @property
    def is_bad(self) -> bool:
        """Whether it is a failure."""
        return self.outcome not in ("ok", "unstable")


def draw(rng: random.Random) -> tuple[Program, Settings]:
    """A random PrimFunc and settings."""
    return draw_program(rng), Settings.draw(rng)


class ShortError(Exception):
    """Random calls led to a PrimFunc to which hardly any primitive applies."""


def draw_and_check(seed: int) -> Result:
    """Draw a PrimFunc and a schedule and check both; short schedules are drawn again."""
    rng = random.Random(seed)
    program, settings = draw(rng)
    while True:
        result = _draw_steps(rng, program, settings)
        if not result.outcome.startswith(ShortError.__name__):
            return result


def _draw_steps(rng: random.Random, program: Program, settings: Settings) -> Result:
    result = Result()
    return _run(result, program, settings, lambda s: _schedule(rng, s, result))


def check(case: Case) -> Result:
    """Check a case that was drawn before."""
    result = Result()

    def apply(stepper: Stepper) -> None:
        for step in case.steps:
            _apply(stepper, step, result)

    return _run(result, case.program, case.settings, apply)


def _run(result: Result, program: Program, settings: Settings, apply: Any) -> Result:
    try:
        parsed = from_source(program.script)
        schedule = Schedule(parsed, seed=settings.seed)
        stepper = Stepper(schedule, keeps_bindings=settings.gpu)
        apply(stepper)
        _check_texts(stepper.schedule, parsed, settings)
        result.outcome = _check_values(
            stepper.schedule, stepper.bound, parsed, program, settings
        )
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        result.outcome = f"{type(error).__name__}: {' | '.join(lines)[:600]}"
    return result


def _schedule(rng: random.Random, stepper: Stepper, result: Result) -> None:
    wanted = rng.randint(_LEAST_APPLIED, _LEAST_APPLIED + 4)
    changes = 0
    for _ in range(_MOST_CALLS):
        changes = sum(n for p, n in result.applied.items() if p not in LOOKS)
        if changes >= wanted:
            return
        for step in draw_steps(rng, stepper):
            if not _apply(stepper, step, result):
                break
    if changes < _LEAST_APPLIED:
        raise ShortError(f"{changes} primitives applied in {_MOST_CALLS} calls")


def _apply(stepper: Stepper, step: Step, result: Result) -> bool:
    """Apply a step; returns whether it was applied. A rejection has to change nothing."""
    try:
        args = [stepper.resolve(a) for a in step.args]
    except MissingError:
        return False
    before = str(stepper.schedule.state.module)
    calls = len(stepper.schedule.trace.insts)
    result.steps.append(step)
    try:
        stepper.call(step, args)
    except ScheduleError as error:
        _check_unchanged(stepper.schedule, before, calls, f"{step.primitive}: {error}")
        result.refused[step.primitive] += 1
        result.steps.pop()
        return False
    except Exception as error:
        raise AssertionError(
            f"{step.primitive} raised {type(error).__name__}: {error}"
        ) from error
    result.applied[step.primitive] += 1
    return True


def _check_unchanged(schedule: Schedule, before: str, calls: int, refusal: str) -> None:
    """Check that a rejection leaves the module and the trace unchanged."""
    assert str(schedule.state.module) == before, (
        f"a refusal changed the program: {refusal}"
    )
    assert len(schedule.trace.insts) == calls, f"a refusal is in the trace: {refusal}"


def _check_texts(schedule: Schedule, before: Any, settings: Settings) -> None:
    """Check that the module verifies and that its trace and script round-trip."""
    mod = schedule.mod
    mod.verify()
    if settings.trace == "instructions":
        fresh = Schedule(before)
        schedule.trace.apply_to_schedule(fresh)
        assert_structural_equal(fresh.mod, mod)
    else:
        verify_trace_roundtrip(schedule, before, text_format=settings.trace)
    script = mod.script()
    again = from_source(script)
    assert_structural_equal(again, mod)
    assert again.script() == script, "the script reads back as another"


def _check_values(
    schedule: Schedule,
    bound: Sequence[IRModule],
    before: Any,  # Any: PrimFunc
    program: Program,
    settings: Settings,
) -> str:
    """Check that the compiled module computes what the original means.

    So does its meaning with parallel loops, and loops that were thread-bound, in other
    orders.
    """
    rng = np.random.default_rng(settings.seed)
    arrays = [_array(rng, p, settings.integers) for p in program.params]
    inputs = len(arrays) - program.outputs
    for array in arrays[inputs:]:
        array.fill(99)
    given = [a.copy() for a in arrays]
    expected = interpret(before, *arrays)
    if settings.gpu:
        arrays = interpret(schedule.mod["main"], *given).arrays
    else:
        with guarded(settings.guards):
            compiled = relax_mlir.compile(
                schedule.mod, threads=settings.threads, cache=False
            )
            compiled["main"](*arrays)
    if not np.isfinite(expected.largest):
        return "unstable"
    if program.decides and not expected.is_exact:
        return "unstable"
    limit = 0.0 if expected.is_exact else _tolerance(program, expected)
    for mod in (schedule.mod, *bound):
        script = mod.script()
        if any(word in script for word in _AT_ONCE):
            for order in ("backwards", "lockstep"):
                _check_order(mod["main"], given, program, expected, limit, order)
    for param, ours, theirs in zip(
        program.params, arrays, expected.arrays, strict=True
    ):
        _compare(param.name, ours, theirs, limit)
    return "ok"


def _check_order(
    scheduled: Any,  # Any: PrimFunc
    given: Sequence[np.ndarray],
    program: Program,
    expected: Evaluation,
    limit: float,
    order: Order,
) -> None:
    found = interpret(scheduled, *given, order=order)
    arrays = zip(program.params, found.arrays, expected.arrays, strict=True)
    for param, ours, theirs in arrays:
        _compare(f"{param.name} {order}", ours, theirs, limit)


def _array(rng: np.random.Generator, param: Param, integers: bool) -> np.ndarray:
    if param.limit is not None:
        return rng.integers(0, param.limit, param.shape).astype(param.dtype)
    kind = np.dtype(ml_dtypes.bfloat16 if param.dtype == "bfloat16" else param.dtype)
    if kind.kind in "iub":
        low = 0 if kind.kind in "ub" else -3
        return np.asarray(rng.integers(low, 4, param.shape)).astype(kind)
    if integers:
        return np.asarray(rng.integers(-3, 4, param.shape)).astype(kind)
    return np.asarray(rng.uniform(-2, 2, param.shape)).astype(kind)


def _tolerance(program: Program, expected: Evaluation) -> float:
    """The tolerance for another rounding order, in terms of the coarsest type."""
    coarsest = next(f for f in _FLOATS if f in program.script)
    unit = float(ml_dtypes.finfo(coarsest).eps) / 2
    elements = max(int(np.prod(p.shape)) for p in program.params)
    return unit * expected.largest * (32 + elements)


def _compare(name: str, ours: np.ndarray, theirs: np.ndarray, limit: float) -> None:
    lhs, rhs = ours.astype(np.float64), theirs.astype(np.float64)
    if lhs.dtype.kind != "f" or limit == 0:
        assert np.array_equal(ours, theirs), (
            f"{name}: other values: {_difference(lhs, rhs)}"
        )
        return
    error = float(np.abs(lhs - rhs).max(initial=0))
    assert error <= limit, f"{name}: error {error:.3g}, over {limit:.3g}"


def _difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    places = np.argwhere(~(ours == theirs))
    first = tuple(map(int, places[0]))
    return (
        f"{len(places)} of {ours.size}; at {first} {ours[first]}, not {theirs[first]}"
    )
