"""Wrong lines are wrong in one place, and are noticed."""

import ast

import pytest

from tests import mutants

SOURCE = '''
"""Number 1."""

@decorated(limit=1)
def f(x: int, flag: bool = True) -> int:
    """Return 2."""
    if x == 1 and flag:
        raise ValueError(f"got {x + 1}")
    for y in [z for z in x if z]:
        g(y, strict=True)
        x += 2
    return x - 3 if x else 4
'''


def all_changes(source: str) -> list[str]:
    count = mutants.count_sites(source)
    return [mutants.plant(source, n).change for n in range(1, count + 1)]


def test_every_place_is_changed_once() -> None:
    assert all_changes(SOURCE) == [
        "if x == 1 and flag:  ->  if not (x == 1 and flag):",
        "x == 1 and flag  ->  x == 1 or flag",
        "x == 1  ->  x != 1",
        "1  ->  2",
        " for z in x if z  ->   for z in x if not z",
        "g(y, strict=True)  ->  pass",
        "x += 2  ->  x -= 2",
        "2  ->  3",
        "x - 3 if x else 4  ->  x - 3 if not x else 4",
        "x - 3  ->  x + 3",
        "3  ->  4",
        "4  ->  5",
    ]


def test_the_rest_stays_as_it_is() -> None:
    right = ast.unparse(ast.parse(SOURCE)).splitlines()

    for number in range(1, mutants.count_sites(SOURCE) + 1):
        mutant = mutants.plant(SOURCE, number)
        wrong = mutant.source.splitlines()
        changed = [
            i for i, (a, b) in enumerate(zip(right, wrong, strict=True)) if a != b
        ]
        assert len(changed) == 1, mutant
        assert SOURCE.splitlines()[mutant.line - 1].strip()


@pytest.mark.parametrize(
    ("sites", "count", "expected"),
    [(10, 3, [2, 6, 9]), (2, 5, [1, 2]), (1, 1, [1]), (0, 4, []), (4, 4, [1, 2, 3, 4])],
)
def test_places_are_evenly_spread(sites: int, count: int, expected: list[int]) -> None:
    assert mutants.chosen(sites, count) == expected


def test_a_share_and_one_at_least_must_be_caught() -> None:
    assert mutants.Score(caught=7, planted=10).is_enough(0.7)
    assert not mutants.Score(caught=6, planted=10).is_enough(0.7)
    assert not mutants.Score(caught=0, planted=0).is_enough(0.0)
    assert not mutants.Score(caught=5, planted=5, problem="no").is_enough(0.5)


@pytest.mark.slow  # 1 s: two processes
def test_a_wrong_pass_is_noticed_and_a_right_one_is_not() -> None:
    module = "relax_mlir.passes.relax.split_pads"
    files = mutants.files_of("relax-split-pads")
    wrong = "from relax_mlir.rewriting import Pass\nclass SplitPads(Pass):\n    pass\n"

    assert mutants.is_noticed(module, wrong, files)
    assert not mutants.is_noticed(module, None, files)
