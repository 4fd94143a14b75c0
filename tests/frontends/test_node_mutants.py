"""Mutants of ONNX's node tests; ``make node-mutants`` takes some thousand."""

import pytest

from tests.frontends.node_mutants import Outcome, attempt, reason

CHUNKS = [pytest.param(i, marks=pytest.mark.slow) for i in range(10)]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_mutants_agree_or_stand_in_the_list(chunk: int) -> None:
    outcomes = [attempt(seed) for seed in range(12 * chunk, 12 * chunk + 12)]

    bad = [o for o in outcomes if not o.is_good and reason(o) is None]

    assert not bad, "\n".join(map(str, bad))
    assert sum(o.kind == "agrees" for o in outcomes) > 1


def test_reasons_are_for_what_they_name() -> None:
    flag = "x: keepdims=2: ModelError: attribute `keepdims`: expected 0 or 1, got 2."

    assert reason(Outcome(0, "ReduceMax", "strict", flag)) is not None
    assert reason(Outcome(0, "ReduceMax", "wrong", flag)) is None
    assert reason(Outcome(0, "Add", "accident", "KeyError: 'x'")) is None
