"""``python -m tests.differential``: random modules by the thousand.

Each is compiled in several ways, in worker processes, and compared with the definitions of
its operators. The log says how often every operator, level, width and number of threads was
drawn. A failure is made smaller and written to ``tests/differential/found``, where it is a
test from then on. ``--replay SEED`` shows one module, in this process.
"""

from __future__ import annotations

import argparse
import json
import selectors
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.differential.check import Settings, UnstableError, check
from tests.differential.generate import recipe_of
from tests.differential.programs import PROGRAMS
from tests.differential.recipes import Recipe, build, operators
from tests.differential.shrink import shrink

__all__ = ["main", "run_one"]

FOUND = Path(__file__).with_name("found")
_SECONDS = 180.0  # of silence, after which a worker is killed


def run_one(seed: int) -> dict[str, object]:
    """What became of one module: ``ok``, ``unstable``, or an error."""
    recipe, rng = recipe_of(seed)
    settings = Settings.draw(rng)
    record: dict[str, object] = {
        "seed": seed,
        "operators": [s.name for s in recipe.steps],
        "settings": asdict(settings),
        "open": any(i.symbols for i in recipe.inputs),
        "groups": [g.kind for g in recipe.groups],
    }
    return {**record, "outcome": outcome_of(recipe, settings)}


def outcome_of(recipe: Recipe, settings: Settings) -> str:
    """``ok``, ``unstable``, or the error's first line."""
    try:
        check(recipe, settings)
    except UnstableError:
        return "unstable"
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {lines[0][:400]}"
    return "ok"


def _work(first: int, step: int, count: int) -> None:
    for seed in range(first, count, step):
        print(json.dumps(run_one(seed)), flush=True)


@dataclass
class _Worker:
    """A process that runs every ``step``-th seed from ``next`` on."""

    next: int
    step: int
    end: int
    process: subprocess.Popen[str] | None = None
    heard: float = 0.0

    def start(self) -> None:
        arguments = [
            "--work",
            str(self.next),
            str(self.step),
            "--modules",
            str(self.end),
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.differential", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.heard = time.monotonic()


class Log:
    """What was drawn, and what became of it."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.drawn: Counter[str] = Counter()
        self.bad: list[tuple[int, str]] = []

    def add(self, record: dict[str, object]) -> None:
        outcome = str(record["outcome"])
        kind = outcome if outcome in ("ok", "unstable") else "bad"
        self.outcomes[kind] += 1
        if kind == "bad":
            self.bad.append((int(str(record["seed"])), outcome))
            print(f"seed {record['seed']}: {outcome}", flush=True)
        if kind == "ok":
            self.drawn.update(set(record["operators"]))  # type: ignore[arg-type]
            settings: dict[str, object] = record["settings"]  # type: ignore[assignment]
            self.drawn.update(f"{k}={v}" for k, v in settings.items())
            self.drawn.update(f"group {g}" for g in set(record["groups"]))  # type: ignore[call-overload]
            self.drawn["open sizes"] += bool(record["open"])

    def report(self) -> str:
        lines = [f"{kind}: {count}" for kind, count in sorted(self.outcomes.items())]
        others = [k for k in self.drawn if not k.startswith(("relax.", "program."))]
        lines += [f"{name}: {self.drawn[name]}" for name in sorted(others)]
        counts = sorted((self.drawn[n], n) for n in (*operators(), *PROGRAMS))
        lines += ["operators: " + ", ".join(f"{n} {c}" for c, n in counts)]
        return "\n".join(lines)


def run(first: int, count: int, jobs: int) -> Log:
    """Run modules of some seeds in worker processes."""
    log = Log()
    selector = selectors.DefaultSelector()
    end = first + count
    workers = [_Worker(first + n, jobs, end) for n in range(min(jobs, count))]
    for worker in workers:
        worker.start()
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[union-attr]
    while selector.get_map():
        for key, _ in selector.select(1.0):
            worker = key.data
            line = key.fileobj.readline()  # type: ignore[union-attr]
            if line:
                log.add(json.loads(line))
                worker.next += worker.step
                worker.heard = time.monotonic()
            else:
                selector.unregister(key.fileobj)
                _finish(worker, "the process ended", log, selector)
        for worker in [k.data for k in list(selector.get_map().values())]:
            if time.monotonic() - worker.heard > _SECONDS:
                worker.process.kill()
                worker.heard = time.monotonic()
    return log


def _finish(
    worker: _Worker, what: str, log: Log, selector: selectors.BaseSelector
) -> None:
    """A worker has ended: done, or with a module that ended it."""
    assert worker.process is not None
    code = worker.process.wait()
    if worker.next >= worker.end:
        return
    log.add({"seed": worker.next, "outcome": f"{what} with status {code}"})
    worker.next += worker.step
    if worker.next < worker.end:
        worker.start()
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]


def keep(seed: int) -> Path:
    """Make the module of a seed that fails smaller, and write it as a test."""
    recipe, rng = recipe_of(seed)
    settings = Settings.draw(rng)

    def fails(smaller: Recipe) -> bool:
        return outcome_of(smaller, settings) not in ("ok", "unstable")

    small = shrink(recipe, fails)
    path = (
        FOUND
        / f"{'_'.join(s.name.removeprefix('relax.') for s in small.steps)[:60]}.json"
    )
    settings_text = json.dumps(asdict(settings))
    path.write_text(f"{settings_text}\n{small.to_json()}\n")
    return path


def load(path: Path) -> tuple[Recipe, Settings]:
    """What :func:`keep` wrote."""
    settings, _, recipe = path.read_text().partition("\n")
    return Recipe.from_json(recipe), Settings(**json.loads(settings))


def _replay(seed: int) -> None:
    recipe, rng = recipe_of(seed)
    settings = Settings.draw(rng)
    print(build(recipe))
    print(settings)
    check(recipe, settings)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--modules", type=int, default=15_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--replay", type=int, help="a seed")
    parser.add_argument("--keep", type=int, nargs="*", help="seeds to write as tests")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        first, step = given.work
        _work(first, step, given.modules)
        return 0
    if given.replay is not None:
        _replay(given.replay)
        return 0
    if given.keep:
        for seed in given.keep:
            print(keep(seed))
        return 0
    log = run(given.first, given.modules, given.jobs)
    print(log.report())
    return bool(log.bad)


if __name__ == "__main__":
    sys.exit(main())
