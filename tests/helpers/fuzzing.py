"""What fuzzers of random cases share: their command, and shrinking."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

__all__ = ["FuzzLog", "fuzz_command", "shrink_greedily"]

_Case = TypeVar("_Case")


class FuzzLog(Protocol):
    """The outcomes of a run; ``bad`` has the seeds that failed."""

    bad: list[tuple[int, str]]

    def report(self) -> str: ...


def fuzz_command(
    prog: str,
    cases: str,
    count: int,
    *,
    run: Callable[[Sequence[int], int], FuzzLog],
    keep: Callable[[int], object],
    replay: Callable[[int], object],
) -> int:
    """Run the command line of a fuzzer; 1 if a case fails.

    Args:
        prog: what the command is called.
        cases: what it draws, which names the option of how many.
        count: how many, by default.
        run: tries seeds in so many processes.
        keep: shrinks the failure of a seed and writes it as a test; returns the file.
        replay: shows the case of a seed, in this process; true if it fails.
    """
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument(f"--{cases}", dest="count", type=int, default=count)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--replay", type=int, help="a seed")
    parser.add_argument("--keep", type=int, nargs="*", help="seeds to write as tests")
    given = parser.parse_args()
    if given.replay is not None:
        return bool(replay(given.replay))
    if given.keep:
        for seed in given.keep:
            print(keep(seed))
        return 0
    begun = time.monotonic()
    log = run(range(given.first, given.first + given.count), given.jobs)
    print(log.report())
    print(f"{time.monotonic() - begun:.0f} s")
    return bool(log.bad)


def shrink_greedily(
    case: _Case,
    smaller: Callable[[_Case], Iterable[_Case]],
    fails: Callable[[_Case], bool],
) -> _Case:
    """The case that is left when nothing ``smaller`` than it fails.

    Args:
        smaller: what a case can be reduced to in one step, best first.
    """
    found: _Case | None = case
    while found is not None:
        case = found
        found = next(filter(fails, smaller(case)), None)
    return case
