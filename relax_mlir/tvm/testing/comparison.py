"""Comparison of numerical results and of modules before and after a pass."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.function import BaseFunc

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
    """Checks that shapes agree and elements differ by at most ``atol + rtol * |desired|``.

    Args:
        actual: an array of any kind.
        desired: the reference; the tolerance is relative to it.
        rtol: the relative tolerance.
        atol: the absolute tolerance.
        verbose: whether the error shows the arrays.

    Raises:
        AssertionError: the arrays differ.
    """
    result, reference = _array(actual), _array(desired)
    assert result.shape == reference.shape, (
        f"arrays differ in shape: expected {reference.shape}, got {result.shape}"
    )
    np.testing.assert_allclose(result, reference, rtol=rtol, atol=atol, verbose=verbose)


def main() -> None:
    """Runs the tests of the calling file and exits with pytest's status."""
    import pytest

    caller = inspect.currentframe()
    assert caller is not None
    assert caller.f_back is not None
    file = caller.f_back.f_code.co_filename
    sys.exit(pytest.main([file, *sys.argv[1:]]))


class CompareBeforeAfter:
    """A test that a pass transforms ``before`` into ``expected``.

    Subclasses define ``transform``, a pass or a method that returns one, and ``before``
    and ``expected`` (or ``Before``, ``Expected``), each a module, a function, a class of
    functions, or a method that returns one of these. ``expected`` may also be an
    exception class.
    """

    transform: Any = None

    def test_compare(self) -> None:
        """The transformed program equals the expected one, or the pass raises."""
        before, expected = self._program("before"), self._program("expected")
        transform = self.transform
        if inspect.ismethod(transform):
            transform = transform()
        if inspect.isclass(expected) and issubclass(expected, Exception):
            _assert_raises(expected, lambda: _apply(transform, before))
            return
        assert_structural_equal(
            _apply(transform, before), _module_of(expected), map_free_vars=True
        )

    def _program(self, name: str) -> Any:
        """Returns the subclass's attribute ``name``, in lower case or capitalized."""
        program = getattr(self, name, getattr(self, name.capitalize(), None))
        if program is None:
            raise TypeError(f"{type(self).__name__}: expected `{name}`")
        if inspect.ismethod(program):
            return program()
        if not inspect.isclass(program) or issubclass(program, Exception):
            return program
        members = vars(program).items()
        return IRModule({n: f for n, f in members if isinstance(f, BaseFunc)})


def _module_of(program: Any) -> Any:
    if isinstance(program, BaseFunc):
        return IRModule({"main": program})
    return program


def _apply(transform: Callable[[Any], Any], program: Any) -> Any:
    return transform(_module_of(program))


def _assert_raises(kind: type[Exception], action: Callable[[], Any]) -> None:
    import pytest

    with pytest.raises(kind):
        action()
