"""Comparison of what applications find; ``make applications`` runs them."""

from pathlib import Path
from typing import Any

import pytest

from tests.applications.__main__ import APPLICATIONS, differences


@pytest.mark.parametrize(
    ("mine", "other", "far"),
    [
        ([], [], []),
        (["cat", 0.5], ["cat", 0.25], [0.25]),
        ([[100.0, [2]]], [[101.0, [2]]], [1 / 101, 0.0]),
        ([None, True], [None, True], [0.0]),
    ],
)
def test_numbers_are_compared_relative_to_the_larger(
    mine: Any, other: Any, far: list[float]
) -> None:
    assert list(differences(mine, other)) == far


@pytest.mark.parametrize(
    ("mine", "other"),
    [(["cat"], ["dog"]), ([1, 2], [1]), ([1], "1"), ([None], [0.0]), ({}, [])],
)
def test_other_texts_and_structures_are_refused(mine: Any, other: Any) -> None:
    with pytest.raises(ValueError, match=r"found .*, not "):
        list(differences(mine, other))


def test_every_application_has_a_program() -> None:
    programs = Path(__file__).with_name("programs").glob("use_*.py")

    assert {p.stem.removeprefix("use_") for p in programs} == {
        a.name for a in APPLICATIONS
    }
