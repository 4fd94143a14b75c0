"""The table of upstream's passes is that of the version that is pinned."""

import json

from tests.golden import upstream_passes


def test_table_is_up_to_date() -> None:
    text = upstream_passes.text()

    assert upstream_passes.TABLE.read_text() == text, upstream_passes.HOW_TO_WRITE
    choices = json.loads(text)["canonicalize"]["region-simplify"]
    assert choices == ["disabled", "normal", "aggressive"]
