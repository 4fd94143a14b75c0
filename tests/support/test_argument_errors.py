"""What public functions refuse is refused by a ``raise``, not by what happens inside."""

import inspect
import linecache
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import RelaxError
from relax_mlir.support import argument_types
from relax_mlir.tvm import relax, tir

_PACKAGE = str(Path(relax_mlir.__file__).parent)
_DIALECTS = str(Path(_PACKAGE).parent / "dialects")

_n = tir.Var("n", "int64")


def _tensor(*shape: Any, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


# What arguments are mutated to: expressions of every kind, numbers, text, containers.
_VALUES: tuple[Any, ...] = (
    *(_tensor(2, 3), _tensor(_n, 3), _tensor(_n * 2, 4), _tensor(2, 3, 4, 5)),
    *(_tensor(1), _tensor(), _tensor(2, 3, dtype="int64"), _tensor(3, dtype="int32")),
    relax.Var("x", relax.TensorStructInfo(dtype="float32", ndim=2)),
    relax.Var("x", relax.TensorStructInfo()),
    relax.Var("o", relax.ObjectStructInfo()),
    relax.Var("t", relax.TupleStructInfo([relax.TensorStructInfo((2, 3), "float32")])),
    relax.Var("s", relax.ShapeStructInfo([_n, 2])),
    *(relax.ShapeExpr([_n * 2, 3]), relax.PrimValue(3), relax.StringImm("a")),
    *(relax.const(np.ones((2, 3), np.float32)), relax.const(1.5)),
    *(relax.Tuple([_tensor(2, 3)]), relax.Tuple([]), relax.ExternFunc("f")),
    *(0, 1, -1, 2, 99, 2**70, -(2**70), 1.5, float("nan"), float("inf"), True, None),
    *("x", "float32", "NCHW", "", b"x", object(), {}, {"a": 1}, _n, _n * 2),
    *([], [1, 2], (0,), [0, 0], [1, 2, 3, 4], [None], ["a"], [_n * 2, 3], [[1]], [-1]),
    *(np.ones((2, 3), np.float32), np.int64(3), lambda x: x),
)
_TENSORS = 8  # of those, which come first


def _accident(error: Exception) -> str:
    """Where an exception was raised that is not an error of ours; empty for a deliberate one.

    Deliberate is what a ``raise`` of the package raises, but for failed assertions and
    too deep recursion, and what Python says of a call with too many arguments.
    """
    if isinstance(error, RelaxError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    if frames[-1].name == "call" and frames[-1].filename == argument_types.__file__:
        return ""
    ours = [f for f in frames if f.filename.startswith((_PACKAGE, _DIALECTS))]
    if not ours:
        return ""
    last = frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    is_bug = isinstance(error, (AssertionError, RecursionError))
    if last is ours[-1] and line.startswith("raise") and not is_bug:
        return ""
    return f"{last.filename}:{last.lineno}: {type(error).__name__}: {error}"


def _calls(
    function: Callable[..., Any], rng: random.Random, count: int
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Random arguments for a function, of the right number."""
    parameters = list(inspect.signature(function).parameters.values())
    needed = [
        p
        for p in parameters
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    optional = [p.name for p in parameters if p.default is not p.empty]
    for _ in range(count):
        many = _VALUES if rng.random() < 0.6 else _VALUES[:_TENSORS]
        args = [rng.choice(many) for _ in needed]
        named = {name: rng.choice(_VALUES) for name in optional if rng.random() < 0.25}
        yield args, named


_CONSTRUCTORS = (
    *("Attrs", "Call", "DataflowBlock", "ExternFunc", "ShapeExpr", "Tuple"),
    *("TupleGetItem", "TupleStructInfo", "ShapeStructInfo"),
)


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {
        name: getattr(relax.op, name)
        for name in dir(relax.op)
        if not name.startswith("_") and inspect.isroutine(getattr(relax.op, name))
    }
    return {**found, **{name: getattr(relax, name) for name in _CONSTRUCTORS}}


def _accident_of(
    function: Callable[..., Any], args: list[Any], named: dict[str, Any]
) -> str:
    """Where a call fails by accident; empty if it does not."""
    try:
        function(*args, **named)
    except Exception as error:
        return _accident(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_wrong_arguments_are_refused_on_purpose(seed: int) -> None:
    rng = random.Random(seed)
    accidents: dict[str, str] = {}
    for name, function in _functions().items():
        for args, named in _calls(function, rng, 20):
            where = _accident_of(function, args, named)
            accidents |= {where: f"{name}({args}, {named})"} if where else {}

    assert not accidents


def test_accidents_are_told_from_refusals() -> None:
    def told(function: Callable[[], object]) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011  of any class
            function()
        return _accident(caught.value)

    assert not told(lambda: relax.op.add(1, "x"))
    assert not told(lambda: relax.Call(3, []))
    code = (lambda: {}["a"]).__code__.replace(co_filename=f"{_PACKAGE}/planted.py")
    assert "planted.py" in told(FunctionType(code, {}))


@pytest.mark.parametrize("value", [_tensor(2, 3), relax.PrimValue(3), _VALUES[10]])
def test_iterating_over_no_tuple_ends(value: relax.Expr) -> None:
    with pytest.raises(TypeError, match="expected a tuple to iterate over"):
        list(value)


def test_tuples_are_iterated_over() -> None:
    pair = relax.Var("t", relax.TupleStructInfo([relax.PrimStructInfo("int64")] * 2))

    assert [field.index for field in pair] == [0, 1]
