"""``python -m tests.schedule_fuzz``: thousands of random schedules of random PrimFuncs.

Each applies at least five primitives. The result has to verify, to round-trip through its
script and its trace, and to compute what the original computes; a primitive that is rejected
has to leave the module unchanged. The log counts how often each primitive was applied and
rejected. A failure is shrunk and written to ``tests/schedule_fuzz/found``, where it is a
regression test. ``--replay SEED`` shows one schedule, in this process.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.helpers.fuzzing import fuzz_command, shrink_greedily
from tests.helpers.seed_pool import Death, try_seeds
from tests.schedule_fuzz.check import Case, Result, check, draw, draw_and_check
from tests.schedule_fuzz.steps import PRIMITIVES

__all__ = ["FOUND", "Log", "main", "shrink"]

FOUND = Path(__file__).with_name("found")
_SECONDS = 120.0  # of silence, after which a worker is killed


class Log:
    """The outcomes, and how often each primitive was applied and rejected."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.applied: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.bad: list[tuple[int, str]] = []

    def add(self, seed: int, result: Result | Death) -> None:
        """Count a result; print a failure."""
        if isinstance(result, Result):
            self.applied += result.applied
            self.refused += result.refused
            if not result.is_bad:
                self.outcomes[result.outcome] += 1
                return
            result_text = result.outcome
        else:
            result_text = str(result)
        self.outcomes["bad"] += 1
        self.bad.append((seed, result_text))
        print(f"seed {seed}: {result_text}", flush=True)

    def report(self) -> str:
        """The counts."""
        lines = [f"{kind}: {count}" for kind, count in sorted(self.outcomes.items())]
        names = sorted(PRIMITIVES, key=lambda name: self.applied[name])
        lines += [
            f"{n}: {self.applied[n]} applied, {self.refused[n]} refused" for n in names
        ]
        return "\n".join(lines)


def run(seeds: Iterable[int], jobs: int) -> Log:
    """Check schedules in worker processes."""
    log = Log()
    for seed, result in try_seeds(
        draw_and_check, seeds, workers=jobs, seconds=_SECONDS
    ):
        log.add(seed, result)
    return log


def case_of(seed: int) -> tuple[Case, Result]:
    """The case of a seed with the calls that were applied, and the result."""
    result = draw_and_check(seed)
    program, settings = draw(random.Random(seed))
    return Case(program, tuple(result.steps), settings), result


def shrink(case: Case) -> Case:
    """The case without the calls that the failure does not need."""
    wanted = _kind(check(case))
    if not wanted:
        raise ValueError("the schedule is right: expected one that fails")
    return shrink_greedily(case, _smaller, lambda c: _kind(check(c)) == wanted)


def _smaller(case: Case) -> Iterator[Case]:
    for number in range(len(case.steps)):
        steps = (*case.steps[:number], *case.steps[number + 1 :])
        yield replace(case, steps=steps)


def _kind(result: Result) -> str:
    return " ".join(result.outcome.split()[:3]) if result.is_bad else ""


def _keep(seed: int) -> Path:
    case, _ = case_of(seed)
    small = shrink(case)
    names = "_".join(step.primitive for step in small.steps)[:60]
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{names or 'no_steps'}_{seed}.txt"
    path.write_text(small.to_json())
    return path


def _replay(seed: int) -> bool:
    case, result = case_of(seed)
    print(case.program.script)
    for step in case.steps:
        print(step.to_json())
    print(case.settings)
    print(result.outcome)
    return result.is_bad


def main() -> int:
    """Run the command line."""
    prog = "python -m tests.schedule_fuzz"
    return fuzz_command(prog, "schedules", 10_000, run=run, keep=_keep, replay=_replay)


if __name__ == "__main__":
    sys.exit(main())
