"""The test cases of all operators, in the PTX emulator."""

import numpy as np
import pytest

from relax_mlir.compiler import reference
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import assert_same_numbers, case_module, flat_inputs
from tests.gpu.emulated import emulated

_TARGET = "cuda:sm_90"

_SHARE = 3  # of the cases of an operator, one in so many runs by default

_EVERY_CASE = [
    pytest.param(
        op,
        case,
        id=f"{op.OPERATION_NAME}-{case}",
        marks=[pytest.mark.every_case] * bool(number % _SHARE),
    )
    for op in relax_ops()
    if hasattr(op, "legalize")
    for number, case in enumerate(op.cases)
]


@pytest.mark.parametrize(("op", "case"), _EVERY_CASE)
def test_operators_compute_the_reference(op: type[RelaxOperation], case: Case) -> None:
    module = case_module(op, case)
    inputs = flat_inputs(case.random_inputs(seed=0))
    expected = reference.run(module, *inputs)

    actual = emulated(module, *map(np.asarray, inputs), target=_TARGET)

    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert_same_numbers(
            ours, np.asarray(theirs), tolerance=op.tolerance, where=f"result {number}"
        )
