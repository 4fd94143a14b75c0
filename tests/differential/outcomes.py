"""Draws and checks single modules, for worker processes."""

from __future__ import annotations

from dataclasses import asdict

from tests.differential.check import Settings, UnstableError, check
from tests.differential.generate import recipe_of
from tests.differential.recipes import Recipe

__all__ = ["outcome_of", "run_one"]


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
