"""Parametrization of tests over operators, and comparison of an operator's results.

A test has one item per operator and runs the operator's cases as subtests: an item per
case would be 6,600 more, whose collection alone takes ten seconds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import assert_same_numbers

__all__ = ["assert_same_results", "every_op", "every_op_with_legalize", "some_cases"]

_OPS = [op for op in relax_ops() if op.cases]


def _parametrize(ops: Sequence[type[RelaxOperation]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("op", ops, ids=[op.OPERATION_NAME for op in ops])


every_op = _parametrize(_OPS)
every_op_with_legalize = _parametrize([op for op in _OPS if hasattr(op, "legalize")])


def some_cases(
    op: type[RelaxOperation], config: pytest.Config, *, step: int
) -> Sequence[Case]:
    """The cases of an operator that run: one in ``step``, or what the options ask for."""
    if config.getoption("--every-case"):
        return op.cases
    return op.cases[:1] if config.getoption("--one-case") else op.cases[::step]


def assert_same_results(
    actual: Sequence[np.ndarray],
    expected: Sequence[Any],
    tolerance: float,
    where: str = "compiled",
) -> None:
    """Assert that the results of an operator are the expected ones, within a tolerance.

    Args:
        tolerance: a part of the scale of a result.
        where: what computed ``actual``, for the message.
    """
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert_same_numbers(
            np.asarray(ours),
            np.asarray(theirs),
            tolerance=tolerance,
            where=f"{where}: result {number}",
        )
