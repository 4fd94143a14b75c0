"""The test cases of all operators, in the PTX emulator.

CI runs one case in three of an operator; ``make every-case`` runs all.
"""

import numpy as np
import pytest

from relax_mlir.compiler import reference
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import case_module, flat_inputs
from tests.gpu.emulated import emulated
from tests.ops.cases import assert_same_results, every_op_with_legalize, some_cases

_TARGET = "cuda:sm_90"


@every_op_with_legalize
def test_operators_compute_the_reference(
    op: type[RelaxOperation], pytestconfig: pytest.Config, subtests: pytest.Subtests
) -> None:
    for case in some_cases(op, pytestconfig, step=3):
        with subtests.test(case=str(case)):
            module = case_module(op, case)
            inputs = flat_inputs(case.random_inputs(seed=0))
            expected = reference.run(module, *inputs)

            actual = emulated(module, *map(np.asarray, inputs), target=_TARGET)

            assert_same_results(actual, expected, op.tolerance)
