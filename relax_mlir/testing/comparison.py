"""Comparing what programs give, and what passes make of programs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from relax_mlir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.structure import assert_structural_equal

__all__ = ["CompareBeforeAfter", "assert_allclose", "main"]


def _array(value: Any) -> np.ndarray:
    return value.numpy() if hasattr(value, "numpy") else np.asanyarray(value)


def assert_allclose(
    actual: Any,
    desired: Any,
    rtol: float = 1e-7,
    atol: float = 1e-7,
    verbose: bool = True,
) -> None:
    """Equal shapes, and elements that differ by no more than ``atol + rtol * desired``.

    Args:
        actual: an array of any kind.
        desired: what it is to be; the two are not interchangeable.
        rtol: what elements may differ by, as a part of what they are to be.
        atol: what they may differ by in any case.
        verbose: whether the error shows the arrays.

    Raises:
        AssertionError: they differ.
    """
    left, right = _array(actual), _array(desired)
    assert left.shape == right.shape, (
        f"arrays differ in shape: expected {right.shape}, got {left.shape}"
    )
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def main() -> None:
    """Run the tests of the file that calls this, and end with their status."""
    import pytest

    caller = inspect.currentframe()
    assert caller is not None
    assert caller.f_back is not None
    file = caller.f_back.f_code.co_filename
    sys.exit(pytest.main([file, *sys.argv[1:]]))


class CompareBeforeAfter:
    """A test of a pass: what it makes of ``before`` equals ``expected``.

    Subclasses say ``transform``, a pass or a method that gives one; and ``before`` and
    ``expected`` (also ``Before``, ``Expected``), each a module, a function, a class of
    functions, or a method that gives one. ``expected`` may be a class of
    exceptions, too.
    """

    transform: Any = None

    def test_compare(self) -> None:
        """The pass makes of the program what it is expected to."""
        before, expected = self._program("before"), self._program("expected")
        transform = self.transform
        if inspect.ismethod(transform):
            transform = transform()
        if inspect.isclass(expected) and issubclass(expected, Exception):
            _assert_raises(expected, lambda: _applied(transform, before))
            return
        assert_structural_equal(
            _applied(transform, before), _module_of(expected), map_free_vars=True
        )

    def _program(self, name: str) -> Any:
        """What a subclass says under a name, written either way."""
        found = getattr(self, name, getattr(self, name.capitalize(), None))
        if found is None:
            raise TypeError(f"{type(self).__name__}: expected `{name}`")
        if inspect.ismethod(found):
            return found()
        if not inspect.isclass(found) or issubclass(found, Exception):
            return found
        members = vars(found).items()
        return IRModule({n: f for n, f in members if isinstance(f, BaseFunc)})


def _module_of(program: Any) -> Any:
    if isinstance(program, BaseFunc):
        return IRModule({"main": program})
    return program


def _applied(transform: Callable[[Any], Any], program: Any) -> Any:
    return transform(_module_of(program))


def _assert_raises(kind: type[Exception], do: Callable[[], Any]) -> None:
    import pytest

    with pytest.raises(kind):
        do()
