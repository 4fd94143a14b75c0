"""Draws and checks single modules, for worker processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tests.differential.check import Settings, UnstableError, check
from tests.differential.generate import recipe_of
from tests.differential.recipes import Recipe

__all__ = ["Record", "outcome_of", "run_one"]


@dataclass(frozen=True)
class Record:
    """What was drawn for a seed, and what became of it.

    Attributes:
        outcome: ``ok``, ``unstable``, or an error.
        drawn: names of operators and programs, settings, kinds of groups.
    """

    outcome: str
    drawn: frozenset[str]


def run_one(seed: int) -> Record:
    """Draw one module and check it."""
    recipe, rng = recipe_of(seed)
    settings = Settings.draw(rng)
    drawn = {s.name for s in recipe.steps}
    drawn |= {f"{name}={value}" for name, value in asdict(settings).items()}
    drawn |= {f"group {g.kind}" for g in recipe.groups}
    if any(i.symbols for i in recipe.inputs):
        drawn.add("open sizes")
    return Record(outcome_of(recipe, settings), frozenset(drawn))


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
