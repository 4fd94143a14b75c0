"""Tests that run for several values, as TVM's write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial, wraps
from typing import Any

__all__ = [
    "enabled_targets",
    "fixture",
    "parameter",
    "parameters",
    "parametrize_targets",
]

_TARGET = "llvm"


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """A fixture that is each of ``values`` in turn.

    Args:
        values: the values.
        ids: what the tests are called by.
        by_dict: the values by what the tests are called; in place of both.
    """
    import pytest

    if by_dict is not None:
        values, ids = tuple(by_dict.values()), list(by_dict)

    @pytest.fixture(params=values, ids=ids)
    def given(request: Any) -> Any:
        return request.param

    return given


def parameters(*value_sets: Sequence[Any], ids: Any = None) -> Sequence[Any]:
    """Fixtures that go through their values together.

    Args:
        value_sets: for each run, the value of each fixture.
        ids: what the tests are called by.
    """
    import pytest

    group: set[Any] = set()

    def one(position: int) -> Any:
        @pytest.fixture(params=range(len(value_sets)), ids=ids)
        def given(request: Any) -> Any:
            indices = request.node.callspec.indices
            names = [n for n in indices if _made_by(request, n) in group]
            if len({indices[n] for n in names}) > 1:
                pytest.skip("other values of parameters that go together")
            return value_sets[request.param][position]

        return given

    made = [one(i) for i in range(len(value_sets[0]))]
    group.update(map(_function, made))
    return made


def _function(fixture: Any) -> Any:
    return getattr(fixture, "_fixture_function", None) or fixture.__wrapped__


def _made_by(request: Any, name: str) -> Any:
    """The function of the fixture that a test knows by a name."""
    found = request._fixturemanager.getfixturedefs(name, request.node)
    return found[-1].func if found else None


def fixture(
    func: Callable[..., Any] | None = None, *, cache_return_value: bool = False
) -> Any:
    """A fixture of pytest.

    Args:
        func: what gives its value.
        cache_return_value: whether the value is made once for the same values of the
            fixtures that ``func`` takes; each test gets a copy.
    """
    import pytest

    if func is None:
        return partial(fixture, cache_return_value=cache_return_value)
    return pytest.fixture(_remembered(func) if cache_return_value else func)


def _remembered(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called once for the same arguments, which can be hashed."""
    known: dict[frozenset[Any], Any] = {}

    @wraps(func)  # its parameters are the fixtures that pytest gives it
    def value(**given: Any) -> Any:
        key = frozenset(given.items())
        if key not in known:
            known[key] = func(**given)
        return deepcopy(known[key])

    return value


def enabled_targets() -> list[tuple[str, Any]]:
    """What tests run on: a target and a device."""
    from relax_mlir.runtime.ndarray import cpu

    return [(_TARGET, cpu())]


def parametrize_targets(*targets: Any) -> Any:
    """Run a test, which takes ``target`` and ``dev``, for those targets that are here.

    Args:
        targets: their names; without any, those of :func:`enabled_targets`.
    """
    import pytest

    plain = bool(targets) and callable(targets[0])
    known = dict(enabled_targets())
    wanted = [_TARGET] if plain or not targets else list(targets)
    found = [(name, known[name]) for name in wanted if name in known]
    mark = pytest.mark.parametrize(("target", "dev"), found)
    return mark(targets[0]) if plain else mark
