"""Every pass, and every option of a pass, has a test in ``tests/ir``."""

import re
from dataclasses import fields
from functools import cache

import pytest

from relax_mlir.pipeline.catalog import list_passes
from relax_mlir.pipeline.options import option_names
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.target_features import Gpu, VectorUnit
from tests.mutants import mutation as mutants

# Options that are fields of what a pass knows about the target machine.
_FEATURES = {
    f.name.replace("_", "-") for kind in (Gpu, VectorUnit) for f in fields(kind)
}


@pytest.mark.parametrize("name", list_passes())
def test_every_pass_has_a_file_that_runs_it(name: str) -> None:
    files = mutants.files_of(name)

    assert any(name in text for text in _run_lines(name)), (
        f"expected a RUN line with `{name}` in tests/ir, got {[f.name for f in files]}"
    )


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, option)
        for name, kind in list_passes().items()
        for option in option_names(kind)
    ],
)
def test_every_option_is_used_by_a_run_line(name: str, option: str) -> None:
    """A feature of the target machine, which several passes take, by one of them."""
    names = list_passes() if option in _FEATURES else [name]
    assert any(
        re.search(rf"{name}{{([^}}]* )?{option}=", line)
        for name in names
        for line in _run_lines(name)
    )


def test_no_file_belongs_to_no_pass() -> None:
    owned = {file for name in list_passes() for file in mutants.files_of(name)}

    assert set(mutants.IR_TESTS.rglob("*.mlir")) == owned


@pytest.mark.parametrize("kind", list_passes().values())
def test_every_pass_says_in_one_line_what_it_does(kind: type[Pass]) -> None:
    summary = (kind.__doc__ or "").split("\n")[0]

    assert summary.endswith(".")
    assert len(summary) <= 88


@cache
def _run_lines(name: str) -> list[str]:
    return [
        line
        for file in mutants.files_of(name)
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("// RUN:")
    ]
