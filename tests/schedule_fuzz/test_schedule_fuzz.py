"""Random schedules preserve the results of random PrimFuncs.

``python -m tests.schedule_fuzz`` runs thousands; these are the first of them, and those that
failed once.
"""

import ctypes
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.tir import Schedule
from relax_mlir.tvm.tir.schedule import LoopRV
from tests.helpers.seed_pool import Death, try_seeds
from tests.schedule_fuzz import check as checking
from tests.schedule_fuzz.__main__ import FOUND, Log, shrink
from tests.schedule_fuzz.check import Case, Result, Settings, check, draw_and_check
from tests.schedule_fuzz.steps import LOOKS, Step

_SCHEDULES = 80
_PARTS = 20  # tests, which share them
_CASES = sorted(FOUND.glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_random_schedules_keep_values(part: int) -> None:
    log = Log()
    for seed in range(part, _SCHEDULES, _PARTS):
        result = draw_and_check(seed)
        log.add(seed, result)
        assert sum(n for p, n in result.applied.items() if p not in LOOKS) >= 5

    assert not log.bad
    assert log.outcomes["ok"] > log.outcomes["unstable"]


@pytest.mark.slow
@pytest.mark.parametrize("path", _CASES, ids=lambda path: path.stem)
def test_schedules_that_failed_once_are_right(path: Path) -> None:
    assert check(Case.from_json(path.read_text())).outcome == "ok"


def _case(name: str) -> Case:
    (path,) = FOUND.glob(f"{name}*.txt")
    return Case.from_json(path.read_text())


def test_text_reads_back() -> None:
    for path in _CASES:
        text = path.read_text()
        head, rest = text.split("\n", 1)
        saved = json.loads(head)  # may lack settings that are newer
        saved["settings"] = dataclasses.asdict(Settings()) | saved["settings"]
        assert Case.from_json(text).to_json() == f"{json.dumps(saved)}\n{rest}"


@pytest.mark.slow  # compiles some
def test_refusals_that_change_programs_are_found_and_shrunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(schedule: Schedule, loop: LoopRV) -> None:
        schedule.unroll(loop)
        raise ScheduleError("parallel: refused")

    monkeypatch.setattr(Schedule, "parallel", refuse)
    case = _case("decompose_reduction_merge")
    loop = {"loop": ["Y1", 0]}
    steps = (Step("unroll", ({"loop": ["Y1", 1]},)), Step("parallel", (loop,)))
    wrong = dataclasses.replace(case, steps=steps)

    outcome = check(wrong).outcome

    assert outcome.startswith("AssertionError: a refusal changed the program: parallel")
    assert shrink(wrong).steps == steps[1:]


def test_built_in_errors_of_primitives_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(schedule: Schedule, loop: object) -> None:
        raise KeyError("n")

    monkeypatch.setattr(Schedule, "unroll", wrong)
    steps = (Step("unroll", ({"loop": ["Y1", 1]},)),)
    case = dataclasses.replace(_case("decompose_reduction_merge"), steps=steps)

    assert "unroll raised KeyError" in check(case).outcome


def test_short_schedules_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [Result("ShortError: 3 primitives applied"), Result("ok")]
    monkeypatch.setattr(checking, "_draw_steps", lambda *_: drawn.pop(0))

    assert draw_and_check(0).outcome == "ok"
    assert not drawn


@pytest.mark.slow  # starts processes
def test_workers_that_die_are_replaced() -> None:
    assert dict(try_seeds(abs, [3, 4], workers=2, seconds=60)) == {3: 3, 4: 4}

    deaths = dict(try_seeds(sys.exit, [7, 8], workers=1, seconds=60))

    assert all(isinstance(death, Death) for death in deaths.values())
    assert [(d.kind, d.exit_code) for d in deaths.values()] == [
        ("crash", 7),
        ("crash", 8),
    ]


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(
    ("attempt", "seed", "kind", "where"),
    [
        (ctypes.string_at, 0, "crash", "in string_at"),
        (time.sleep, 60, "hang", "in _serve"),
    ],
)
def test_deaths_say_where_the_process_was(
    attempt: Callable[[int], object], seed: int, kind: str, where: str
) -> None:
    ((_, death),) = try_seeds(attempt, [seed], workers=1, seconds=4)

    assert isinstance(death, Death)
    assert death.kind == kind
    assert where in str(death)
    assert "after 0 seeds" in str(death)
