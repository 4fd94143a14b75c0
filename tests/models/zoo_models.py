"""The models of the zoo as parameters of tests."""

from collections.abc import Collection

import pytest
from _pytest.mark import ParameterSet

from models import zoo

__all__ = ["zoo_models"]

# Of the same operators as others that are smaller, or that take less time.
_LIKE_OTHERS = {
    *("light_bvlc_alexnet", "light_inception_v2", "light_vgg19", "light_zfnet512"),
    *("light_densenet121", "light_inception_v1", "light_shufflenet", "gpt2_prefill"),
}


def zoo_models(
    *prefixes: str, quick: Collection[str], like_others: Collection[str] = ()
) -> list[ParameterSet]:
    """Those whose name starts with one of ``prefixes``; all of them if there is none.

    Args:
        quick: tests of these take less than 0.25 s; the others are marked slow.
        like_others: what the test asks of these, smaller models show too.
    """
    found = [e for e in zoo.ENTRIES if e.name.startswith(prefixes or ("",))]
    rare = {*_LIKE_OTHERS, *like_others}
    return [
        pytest.param(e, id=e.name, marks=_marks(e.name, quick, rare)) for e in found
    ]


def _marks(
    name: str, quick: Collection[str], rare: Collection[str]
) -> list[pytest.MarkDecorator]:
    if name in rare:
        return [pytest.mark.slow, pytest.mark.every_case]
    return [] if name in quick else [pytest.mark.slow]
