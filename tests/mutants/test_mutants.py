"""Wrong lines are wrong in one place, and are noticed."""

import ast
import subprocess
import sys

import pytest

from tests.mutants import mutation as mutants

SOURCE = '''
"""Number 1."""

__all__ = ["f", "g"]
Size: TypeAlias = int | None
TABLE: dict[str, int] = {"a": 1, "b": f}
if TYPE_CHECKING:
    import c

@decorated(limit=1)
def f(x: int, flag: bool = True) -> int:
    """Return 2."""
    if x == 1 and flag:
        raise ValueError(f"got {x + 1}")
    for y in [z for z in x if z]:
        g(y, strict=True)
        x += 2
    return x - 3 if x else 4

def g(x: int) -> int | None:
    if not x or 0 <= x < y:
        return None
    return min(-x // y, x % y) if x in ("a", "b") else all(x)
'''


def all_changes(source: str) -> list[str]:
    count = mutants.count_sites(source)
    return [mutants.plant(source, n).change for n in range(1, count + 1)]


def test_every_place_is_changed_once() -> None:
    last = "return min(-x // y, x % y) if x in ('a', 'b') else all(x)"
    assert all_changes(SOURCE) == [
        "{'a': 1, 'b': f}  ->  {'b': f}",
        "{'a': 1, 'b': f}  ->  {'a': 1}",
        "1  ->  2",
        "True  ->  False",
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
        "if not x or 0 <= x < y:  ->  if not (not x or 0 <= x < y):",
        "not x or 0 <= x < y  ->  not x and 0 <= x < y",
        "not x  ->  x",
        "0 <= x < y  ->  0 < x < y",
        "0 <= x < y  ->  0 <= x <= y",
        "0  ->  1",
        f"{last}  ->  return None",
        "x in ('a', 'b')  ->  x not in ('a', 'b')",
        "('a', 'b')  ->  ('b',)",
        "('a', 'b')  ->  ('a',)",
        "min  ->  max",
        "-x // y  ->  -x * y",
        "-x // y  ->  -(--x // y)",
        "-x  ->  x",
        "x % y  ->  x // y",
        "all  ->  any",
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


_TRY = """
from tests.mutants import mutation as mutants

module = "relax_mlir.dialects.effects"
files = [mutants.TESTS / "dialects" / "test_effects.py"]
source = mutants.path_of(module).read_text()
wrong = source.replace("return not self & ~kept", "return True")
names = ["relax_mlir.errors", "relax_mlir.dialects.relax.core"]
for text in (source, wrong, "while True: pass"):
    print(mutants.is_noticed(module, text, files, cpu_limit_s=3))
mutants.load_others(module, names)
import sys
print(*(name in sys.modules for name in (module, *names)))
print(mutants.is_noticed(module, source, files), mutants.is_noticed(module, wrong, files))
"""


@pytest.mark.slow  # 8 s: five processes, one of which never ends
def test_a_wrong_module_is_noticed_and_a_right_one_is_not() -> None:
    tried = subprocess.run(
        [sys.executable, "-c", _TRY],
        capture_output=True,
        text=True,
        check=True,
        cwd=mutants.TESTS.parent,
    )

    assert tried.stdout.splitlines() == [
        *("False", "True", "True"),
        "False True False",  # what depends on the module is not loaded before it
        "False True",
    ]


@pytest.mark.every_case
@pytest.mark.slow  # a process for each module, and one for each mutant
def test_the_command_prints_a_line_for_each_module() -> None:
    names = ["dialects.effects", "relax-split-pads"]
    command = [sys.executable, "-m", "tests.mutants", *names]
    counts = ["--per-analysis", "2", "--per-pass", "1", "--share", "0"]
    tried = subprocess.run(
        [*command, *counts],
        capture_output=True,
        text=True,
        check=True,
        cwd=mutants.TESTS.parent,
    )

    first, second, *_ = (
        line for line in tried.stdout.splitlines() if not line.startswith(" ")
    )
    assert first.split() == ["dialects.effects", "2", "of", "2", "caught"]
    assert second.split() == ["relax-split-pads", "1", "of", "1", "caught"]


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mutants.main(["symbolic.interval"])

    message = capsys.readouterr().err
    assert "no pass or analysis `symbolic.interval`" in message
    assert "`symbolic.intervals`" in message
