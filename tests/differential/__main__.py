"""``python -m tests.differential``: random modules by the thousand.

Each is compiled in several ways, in worker processes, and compared with the definitions of
its operators. The log says how often every operator, level, width and number of threads was
drawn. A failure is made smaller and written to ``tests/differential/found``, where it is a
test from then on. ``--replay SEED`` shows one module, in this process.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tests.differential.check import Settings, check
from tests.differential.generate import recipe_of
from tests.differential.outcomes import Record, outcome_of, run_one
from tests.differential.programs import PROGRAMS
from tests.differential.recipes import Recipe, build, operators
from tests.differential.shrink import shrink
from tests.helpers.fuzzing import fuzz_command
from tests.helpers.seed_pool import Death, try_seeds

__all__ = ["FOUND", "Log", "load", "main"]

FOUND = Path(__file__).with_name("found")
_SECONDS = 180.0  # of silence, after which a worker is killed


class Log:
    """What was drawn, and what became of it."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.drawn: Counter[str] = Counter()
        self.bad: list[tuple[int, str]] = []

    def add(self, seed: int, found: Record | Death) -> None:
        """Count an outcome; print what is wrong."""
        if isinstance(found, Record) and found.outcome in ("ok", "unstable"):
            self.outcomes[found.outcome] += 1
            if found.outcome == "ok":
                self.drawn.update(found.drawn)
            return
        outcome = found.outcome if isinstance(found, Record) else str(found)
        self.outcomes["bad"] += 1
        self.bad.append((seed, outcome))
        print(f"seed {seed}: {outcome}", flush=True)

    def report(self) -> str:
        """The counts."""
        lines = [f"{kind}: {count}" for kind, count in sorted(self.outcomes.items())]
        others = [k for k in self.drawn if not k.startswith(("relax.", "program."))]
        lines += [f"{name}: {self.drawn[name]}" for name in sorted(others)]
        counts = sorted((self.drawn[n], n) for n in (*operators(), *PROGRAMS))
        lines += ["operators: " + ", ".join(f"{n} {c}" for c, n in counts)]
        return "\n".join(lines)


def run(seeds: Iterable[int], jobs: int) -> Log:
    """Run modules of some seeds in worker processes."""
    log = Log()
    for seed, found in try_seeds(run_one, seeds, workers=jobs, seconds=_SECONDS):
        log.add(seed, found)
    return log


def keep(seed: int) -> Path:
    """Make the module of a seed that fails smaller, and write it as a test."""
    recipe, rng = recipe_of(seed)
    settings = Settings.draw(rng)

    def fails(smaller: Recipe) -> bool:
        return outcome_of(smaller, settings) not in ("ok", "unstable")

    small = shrink(recipe, fails)
    FOUND.mkdir(exist_ok=True)
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
    prog = "python -m tests.differential"
    return fuzz_command(prog, "modules", 15_000, run=run, keep=keep, replay=_replay)


if __name__ == "__main__":
    sys.exit(main())
