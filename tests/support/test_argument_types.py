"""Arguments of public functions are checked against annotations."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest

import relax_mlir
from relax_mlir import nn
from relax_mlir.errors import ArgumentTypeError, ArgumentValueError, RelaxError
from relax_mlir.objects import purity
from relax_mlir.support.argument_types import (
    at_least,
    check_methods,
    checked,
    skip_argument_checks,
)
from relax_mlir.tvm import relax, te, tir, topi

if TYPE_CHECKING:
    from somewhere import Unknown  # pyright: ignore[reportMissingImports]


@checked
def _takes(
    count: int = 0,
    scale: float = 0.0,
    name: str | None = None,
    sizes: Sequence[int] = (),
    pair: tuple[int, str] = (0, ""),
    table: Mapping[str, int] | None = None,
    then: Callable[[int], int] | None = None,
    side: Literal["left", "right"] = "left",
    anything: Any = None,
    unknown: Unknown = None,
    *further: int,
    sized: Annotated[int, at_least(1)] = 1,
    late: int = None,  # type: ignore[assignment]  # noqa: RUF013
) -> int:
    """All kinds of parameters."""
    return count


@pytest.mark.parametrize(
    "named",
    [
        {"count": np.int64(3)},
        {"count": True},
        {"scale": 3},
        {"scale": np.float32(0.5)},
        {"name": None},
        {"sizes": [1, np.int32(2)]},
        {"sizes": np.ones(3, np.int64)},
        {"sizes": {}.keys()},
        {"pair": (1, "a")},
        {"table": {"a": 1}},
        {"then": abs},
        {"side": "right"},
        {"anything": object()},
        {"unknown": 3},
        {"late": None},
    ],
)
def test_what_annotations_say_is_taken(named: dict[str, Any]) -> None:
    assert _takes(**named) == named.get("count", 0)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"count": 1.5}, "`count`: expected an integer, got float"),
        ({"scale": "1"}, "`scale`: expected a number, got str"),
        ({"name": b"x"}, "`name`: expected a string or None, got bytes"),
        ({"sizes": "12"}, "`sizes`: expected a sequence of an integer, got str"),
        ({"sizes": [1, "a"]}, "got list of int, str"),
        ({"sizes": np.array(3)}, "got ndarray"),
        ({"pair": 3}, "`pair`: expected a sequence, got int"),
        ({"table": [1]}, "`table`: expected a dictionary or None, got list of int"),
        ({"then": 3}, "`then`: expected a function or None, got int"),
        ({"side": "up"}, "`side`: expected `left` or `right`, got str"),
        ({"sized": "x"}, "`sized`: expected an integer of at least 1, got str"),
        ({"late": "x"}, "`late`: expected an integer or None, got str"),
    ],
)
def test_other_arguments_are_refused_by_name(
    named: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentTypeError, match="_takes: ") as caught:
        _takes(**named)

    assert message in str(caught.value)
    assert isinstance(caught.value, RelaxError)


def test_values_of_the_type_may_be_refused() -> None:
    with pytest.raises(ArgumentValueError, match="of at least 1, got 0"):
        _takes(sized=0)
    with pytest.raises(ArgumentValueError, match="a tensor of rank 2, got Tensor"):
        topi.matmul(te.placeholder((2,)), te.placeholder((2,)))


def test_arguments_by_position_are_checked_as_well() -> None:
    with pytest.raises(TypeError, match="`scale`"):
        _takes(1, "x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`further`"):
        _takes(0, 0.0, None, (), (0, ""), None, None, "left", 0, 0, 1, "x")  # pyright: ignore[reportArgumentType]


def test_methods_are_checked_in_place() -> None:
    class Box:
        def __init__(self, size: int) -> None:
            self.size = size

        def grow(self, by: int) -> int:
            return self.size + by

        @staticmethod
        def made(size: int) -> Box:
            return Box(size)

        @skip_argument_checks
        def put(self, what: int) -> int:
            return what

    Box.__module__ = "relax_mlir.planted"
    check_methods(Box)

    assert Box.made(2).grow(1) == 3
    assert Box(1).put("x") == "x"  # pyright: ignore[reportArgumentType]
    wrong: tuple[Callable[[], object], ...] = (
        lambda: Box("x"),  # pyright: ignore[reportArgumentType]
        lambda: Box(1).grow("x"),  # pyright: ignore[reportArgumentType]
        lambda: Box.made("x"),  # pyright: ignore[reportArgumentType]
    )
    for call in wrong:
        with pytest.raises(TypeError, match=r"Box(\.\w+)?: `\w+`: expected an integer"):
            call()


def test_packages_check_what_they_export() -> None:
    assert relax.analysis.detect_recursion is not purity.detect_recursion
    with pytest.raises(ArgumentTypeError, match="detect_recursion: `mod`"):
        relax.analysis.detect_recursion(3)
    with pytest.raises(ArgumentTypeError, match="lower: `module`"):
        relax_mlir.lower(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentTypeError, match="relu: `x`: expected a Tensor"):
        topi.nn.relu(3)  # pyright: ignore[reportArgumentType]


def test_functions_of_modules_are_still_found_by_name() -> None:
    assert (
        pickle.loads(pickle.dumps(purity.detect_recursion)) is purity.detect_recursion
    )


def test_what_is_loaded_when_it_is_used_is_checked_as_well() -> None:
    with pytest.raises(
        ArgumentTypeError, match="TuningDatabase: `path`: expected a Path"
    ):
        relax_mlir.TuningDatabase(3)  # pyright: ignore[reportArgumentType]


def test_annotations_are_those_of_the_module_that_wrote_them() -> None:
    """A decorator of another module hides where the names in annotations come from."""
    a = te.placeholder((8,), name="A")
    program = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    schedule = tir.Schedule(program)

    with pytest.raises(ArgumentTypeError, match=r"Schedule\.split: `loop`"):
        schedule.split(None, [4, 2])  # pyright: ignore[reportArgumentType]
    (loop,) = schedule.get_loops("B")
    with pytest.raises(ArgumentTypeError, match=r"Schedule\.split: `factors`"):
        schedule.split(loop, 4)  # pyright: ignore[reportArgumentType]


def test_what_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(ArgumentValueError, match="arguments are nested too deeply"):
        nn.extern("f", endless, None)
