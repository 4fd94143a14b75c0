"""Properties derived from effects, for all sets of flags."""

from functools import reduce
from itertools import combinations
from operator import or_

import pytest

from relax_mlir.dialects.effects import Effects

_SINGLE = [effect for effect in Effects if bin(effect.value).count("1") == 1]
_SETS = [
    reduce(or_, chosen, Effects.NONE)
    for size in range(len(_SINGLE) + 1)
    for chosen in combinations(_SINGLE, size)
]


@pytest.mark.parametrize(
    ("property_name", "allowed"),
    [
        ("is_pure", {"ALLOCATES", "READS", "OVERWRITES", "CHECKS", "CALLS"}),
        ("is_removable", {"ALLOCATES", "READS", "CALLS"}),
        ("is_mergeable", {"CHECKS", "CALLS"}),
        ("is_speculatable", {"ALLOCATES"}),
    ],
)
def test_properties_hold_for_allowed_effects_only(
    property_name: str, allowed: set[str]
) -> None:
    for effects in _SETS:
        names = {effect.name for effect in _SINGLE if effect in effects}
        assert getattr(effects, property_name) is (names <= allowed), effects


def test_may_write() -> None:
    for effects in _SETS:
        writes = Effects.WRITES in effects or Effects.OVERWRITES in effects
        assert effects.may_write is writes, effects


def test_none_and_unknown() -> None:
    assert not Effects.NONE
    assert Effects(0) is Effects.NONE
    assert Effects.UNKNOWN == Effects.WRITES | Effects.OBSERVED
    assert len(_SETS) == 2**7
