"""What a result may differ by."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.zoo.agreement import allowed, distance, moved

_EXACT = np.array([1.0, 2.0], np.float32)


@pytest.mark.parametrize(
    ("plain", "rounded", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 4 * 2.0**-22),
        ([1.0, 2.5], [1.0, 2.0], 5.0),
        ([1.0, 2.0], [1.25, 2.0], 0.75),
    ],
)
def test_the_largest_of_three_bounds_holds(
    plain: list[float], rounded: list[float], expected: float
) -> None:
    others = (np.array(plain, np.float32), [np.array(rounded, np.float32)])

    assert allowed(_EXACT, *others) == expected


def test_whole_numbers_have_to_be_equal() -> None:
    exact, other = np.array([3]), np.array([4])

    assert allowed(exact, other, [other]) == 0


def test_distance_sees_infinities_and_what_is_no_number() -> None:
    one = np.array([np.inf, np.nan, 1.0], np.float32)

    assert distance(one, one) == 0
    assert distance(one, np.array([np.inf, 2.0, 1.0], np.float32)) == math.inf


def test_every_element_moves_by_its_last_bit() -> None:
    x = np.linspace(1, 2, 100, dtype=np.float32)

    steps = (moved(x, 0).view(np.int32) - x.view(np.int32)).tolist()

    assert set(steps) == {-1, 1}
    assert moved(np.array([7]), 0).tolist() == [7]
