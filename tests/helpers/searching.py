"""How many examples the tests draw that compile something for each."""

from hypothesis import settings

__all__ = ["examples"]

_SEARCH = 8  # times as many with `--hypothesis-profile=search`, as `make fuzz` has it


def examples(count: int) -> settings:
    """Settings of a test that draws ``count`` examples, or more in a search."""
    is_search = settings.get_current_profile_name() == "search"
    return settings(max_examples=count * _SEARCH if is_search else count)
