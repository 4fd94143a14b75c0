"""No exception that is an accident leaves the package, whatever public functions are given."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from types import FunctionType

import pytest

import relax_mlir
from relax_mlir.errors import ArgumentTypeError, ArgumentValueError
from relax_mlir.tvm import relax, te, topi
from tests.argument_sweep import commands
from tests.argument_sweep.__main__ import LEFT_OUT
from tests.argument_sweep.judge import accident
from tests.argument_sweep.ways_in import OF_THE_PACKAGE, ways_in


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 2), pytest.param(2, 10, marks=pytest.mark.every_case)],
)
def test_every_way_in_refuses_on_purpose(first: int, count: int) -> None:
    """In a process of its own, which wrong arguments may change or end."""
    command = [sys.executable, "-m", "tests.argument_sweep", str(first), str(count)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 accidents" in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 10), pytest.param(1, 200, marks=pytest.mark.every_case)]
)
def test_commands_say_what_is_wrong(seed: int, count: int) -> None:
    """Of random files and options; in a process of its own, which has one working directory."""
    program = "tests.argument_sweep.commands"
    command = [sys.executable, "-m", program, str(seed), str(count)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 accidents" in run.stdout


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (3, "relax-mlir: error: no such file\n"),
        (1, ""),
        (1, "relax-mlir: error: \n"),
        (1, "relax-mlir: error: KeyError: 'x'. Hint: `--debug` shows where.\n"),
        (1, "error: a\nerror: b\n"),
        (2, "Traceback (most recent call last):\n  f\nrelax-mlir: error: x\n"),
    ],
)
def test_endings_that_tell_nothing_are_found(status: int, said: str) -> None:
    assert commands.judged(status, said)
    assert not commands.judged(1, "relax-mlir: error: m.onnx: there is no such file.\n")


@pytest.mark.parametrize(
    "planted",
    [ArgumentTypeError("expected a number"), ArgumentValueError("`x` is wrong")],
)
def test_messages_on_arguments_begin_with_a_name(planted: Exception) -> None:
    def function() -> None:
        raise planted

    place = f"{relax_mlir.__path__[0]}/planted.py"
    code = function.__code__.replace(co_filename=place)
    planted_function = FunctionType(code, globals(), closure=function.__closure__)

    assert "planted.py" in accident(_error_of(planted_function), "f")


def test_the_ways_in_are_found() -> None:
    found = {way.name for way in ways_in()}

    assert {"relax_mlir.load", "tir.Schedule", "topi.nn.relu", "nn.Linear"} <= found
    assert {"relax.analysis.well_formed", "script.from_source"} <= found
    assert {"nn.Linear.forward", "tir.Schedule.split"} <= found
    assert set(LEFT_OUT) <= found


def test_methods_of_the_package_are_no_ways_in() -> None:
    classes = {w.function for w in ways_in() if inspect.isclass(w.function)}
    methods = {
        f"{base.__name__}.{name}"
        for cls in classes
        for base in inspect.getmro(cls)
        for name in dir(cls)
    }

    assert not any(way.name.endswith(".with_children") for way in ways_in())
    assert set(OF_THE_PACKAGE) <= methods


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
