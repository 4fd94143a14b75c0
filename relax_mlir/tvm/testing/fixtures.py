"""Parametrized pytest fixtures with TVM's interface."""

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
    """Makes a fixture that takes each of ``values`` in turn.

    Args:
        values: the values.
        ids: the test ids of the values.
        by_dict: a mapping from test id to value, instead of ``values`` and ``ids``.
    """
    import pytest

    if by_dict is not None:
        values, ids = tuple(by_dict.values()), list(by_dict)

    @pytest.fixture(params=values, ids=ids)
    def value(request: Any) -> Any:
        return request.param

    return value


def parameters(*value_sets: Sequence[Any], ids: Any = None) -> Sequence[Any]:
    """Makes fixtures that are parametrized jointly, not as a cross product.

    Args:
        value_sets: for each test instance, the value of each fixture.
        ids: the test ids of the instances.
    """
    import pytest

    group: set[Any] = set()

    def make_fixture(position: int) -> Any:
        @pytest.fixture(params=range(len(value_sets)), ids=ids)
        def value(request: Any) -> Any:
            indices = request.node.callspec.indices
            names = [n for n in indices if _fixture_function(request, n) in group]
            if len({indices[n] for n in names}) > 1:
                pytest.skip("not a combination of jointly parametrized values")
            return value_sets[request.param][position]

        return value

    fixtures = [make_fixture(i) for i in range(len(value_sets[0]))]
    group.update(map(_wrapped_function, fixtures))
    return fixtures


def _wrapped_function(fixture: Any) -> Any:
    return getattr(fixture, "_fixture_function", None) or fixture.__wrapped__


def _fixture_function(request: Any, name: str) -> Any:
    """Returns the function of the fixture that ``name`` resolves to in a test."""
    definitions = request._fixturemanager.getfixturedefs(name, request.node)
    return definitions[-1].func if definitions else None


def fixture(
    func: Callable[..., Any] | None = None, *, cache_return_value: bool = False
) -> Any:
    """Makes a pytest fixture.

    Args:
        func: computes its value.
        cache_return_value: whether to call ``func`` once per set of arguments and give
            each test a deep copy of the result.
    """
    import pytest

    if func is None:
        return partial(fixture, cache_return_value=cache_return_value)
    return pytest.fixture(_memoized(func) if cache_return_value else func)


def _memoized(func: Callable[..., Any]) -> Callable[..., Any]:
    """Memoizes a function of hashable keyword arguments; returns deep copies."""
    cache: dict[frozenset[Any], Any] = {}

    @wraps(func)  # pytest reads its parameter names: the fixtures that it requests
    def memoized(**arguments: Any) -> Any:
        key = frozenset(arguments.items())
        if key not in cache:
            cache[key] = func(**arguments)
        return deepcopy(cache[key])

    return memoized


def enabled_targets() -> list[tuple[str, Any]]:
    """The pairs of target and device that tests run on."""
    from relax_mlir.runtime.ndarray import cpu

    return [(_TARGET, cpu())]


def parametrize_targets(*targets: Any) -> Any:
    """Parametrizes a test's ``target`` and ``dev`` over the available targets.

    Args:
        targets: names of targets; by default those of :func:`enabled_targets`.
    """
    import pytest

    is_bare = bool(targets) and callable(targets[0])  # decorator without parentheses
    enabled = dict(enabled_targets())
    requested = [_TARGET] if is_bare or not targets else list(targets)
    pairs = [(name, enabled[name]) for name in requested if name in enabled]
    mark = pytest.mark.parametrize(("target", "dev"), pairs)
    return mark(targets[0]) if is_bare else mark
