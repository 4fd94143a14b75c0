"""No exception that is an accident leaves the package, whatever public functions are given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import FunctionType

import pytest

import relax_mlir
from relax_mlir import relax, te, topi
from tests.argument_sweep.__main__ import LEFT_OUT
from tests.argument_sweep.judge import accident
from tests.argument_sweep.ways_in import ways_in


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 4), (4, 4), pytest.param(8, 4, marks=pytest.mark.every_case)],
)
def test_every_way_in_refuses_on_purpose(first: int, count: int) -> None:
    """In a process of its own, which wrong arguments may change or end."""
    command = [sys.executable, "-m", "tests.argument_sweep", str(first), str(count)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 accidents" in run.stdout


def test_the_ways_in_are_found() -> None:
    found = {way.name for way in ways_in()}

    assert {"relax_mlir.load", "tir.Schedule", "topi.nn.relu", "nn.Linear"} <= found
    assert {"relax.analysis.well_formed", "script.from_source"} <= found
    assert set(LEFT_OUT) <= found


def _error_of(function: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  of any class
        function()
    return caught.value


@pytest.mark.parametrize(
    "planted",
    [
        lambda: {}["a"],
        lambda: [][0],
        lambda: 1 // 0,
        lambda: next(iter(())),
        lambda: object().shape,  # pyright: ignore[reportAttributeAccessIssue]
        lambda: int("x"),
    ],
)
def test_accidents_are_told_from_refusals(planted: FunctionType) -> None:
    place = f"{relax_mlir.__path__[0]}/planted.py"
    code = planted.__code__.replace(co_filename=place)

    assert "planted.py" in accident(_error_of(FunctionType(code, {**globals()})), "f")


@pytest.mark.parametrize(
    "refused",
    [
        lambda: topi.nn.relu(3),  # pyright: ignore[reportArgumentType]
        lambda: topi.nn.relu(),  # pyright: ignore[reportCallIssue]
        lambda: relax.Call(3, []),
        lambda: te.placeholder((2,))[0, 1],
        lambda: relax_mlir.load("none.rxm"),
    ],
)
def test_refusals_are_no_accidents(refused: Callable[[], object]) -> None:
    assert not accident(_error_of(refused), "topi.nn.relu")
