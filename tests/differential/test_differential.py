"""Random modules give what their operators are defined to give.

``python -m tests.differential`` runs thousands; these are the first of them, and those that
failed once.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.differential.__main__ import FOUND, Log, load
from tests.differential.check import Settings
from tests.differential.generate import generate
from tests.differential.outcomes import outcome_of, run_one
from tests.differential.recipes import (
    Definition,
    Group,
    Input,
    Recipe,
    Step,
    build,
    operators,
    with_noise,
)
from tests.differential.shrink import shrink

_MODULES = 80
_PARTS = 20  # tests, which share them


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_random_modules_are_right(part: int) -> None:
    log = Log()
    for seed in range(part, _MODULES, _PARTS):
        log.add(seed, run_one(seed))

    assert not log.bad
    assert log.outcomes["ok"] > log.outcomes["unstable"]


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.json")), ids=lambda p: p.stem)
def test_what_was_wrong_once_is_right(path) -> None:  # type: ignore[no-untyped-def]
    recipe, settings = load(path)

    assert outcome_of(recipe, settings) == "ok"


def _example() -> Recipe:
    """``relu(x + y) + (x + y)``, and a tuple's part."""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    steps = (
        Step("relax.add", (0, 1), {}),
        Step("relax.nn_relu", (2,), {}),
        Step("relax.add", (3, 2), {}),
        Step("relax.split", (4,), {"indices_or_sections": 2, "axis": 1}, 2),
    )
    return Recipe((Input(x), Input(2 * x, is_constant=True)), steps, (5, 6))


@pytest.mark.parametrize("kind", ["call", "then", "else"])
def test_groups_stand_in_regions_of_their_own(kind: str) -> None:
    recipe = replace(_example(), groups=(Group(kind, 1, 2),))

    text = str(build(recipe))

    assert ("relax.call" in text) == (kind == "call")
    assert ("relax.if" in text) == (kind != "call")
    assert outcome_of(recipe, Settings()) == "ok"


@pytest.mark.parametrize("seed", range(6))
def test_text_reads_back(seed: int) -> None:
    recipe = generate(random.Random(seed))

    again = Recipe.from_json(recipe.to_json())

    assert str(build(again)) == str(build(recipe))
    for ours, theirs in zip(again.arrays(), recipe.arrays(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_noise_is_that_of_an_array_of_any_rank() -> None:
    noisy = with_noise(np.array(2.0, np.float32), 0.1, np.random.default_rng(0), 50.0)

    assert isinstance(noisy, np.ndarray)
    assert 0.2 < abs(noisy - 2) < 5


def test_every_operator_can_begin_a_module() -> None:
    names = sorted(operators())

    begun = {
        generate(random.Random(seed), name).steps[0].name == name
        for seed, name in enumerate(names[::20])
    }

    assert begun == {True}


def test_wrong_operator_is_found_and_made_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return lhs + rhs * np.float32(1.01)

    monkeypatch.setattr(operators()["relax.add"], "reference", staticmethod(wrong))

    def fails(recipe: Recipe) -> bool:
        return outcome_of(recipe, Settings()) not in ("ok", "unstable")

    small = shrink(_example(), fails)

    assert "error" in outcome_of(small, Settings())
    assert [s.name for s in small.steps] == ["relax.add"]
    assert len(Definition(small).evaluate()) == 3
