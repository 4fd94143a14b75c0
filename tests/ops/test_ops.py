"""Tests of every operator on its own test cases.

CI runs a share of the cases; ``make every-case`` runs all.
"""

import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import compile
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import case_module, flat_inputs
from tests.ops.cases import (
    assert_same_results,
    every_op,
    every_op_with_legalize,
    some_cases,
)


@every_op
def test_text_round_trips(
    op: type[RelaxOperation], pytestconfig: pytest.Config, subtests: pytest.Subtests
) -> None:
    """The printed module parses back to the same text."""
    for case in some_cases(op, pytestconfig, step=2):
        with subtests.test(case=str(case)):
            text = str(case_module(op, case))

            assert str(IRModule.parse(text)) == text


@every_op
def test_inferred_type_matches_reference(
    op: type[RelaxOperation], pytestconfig: pytest.Config, subtests: pytest.Subtests
) -> None:
    """The types from ``infer`` are those of the arrays from ``reference``."""
    for case in some_cases(op, pytestconfig, step=1):
        with subtests.test(case=str(case)):
            module = case_module(op, case)

            results = reference.run(module, *flat_inputs(case.random_inputs(seed=0)))

            returned = module.func_op("main").entry_block.operations[-1].operands
            for value, array in zip(returned, results, strict=True):
                assert tensors.shape_of(value) == np.asarray(array).shape
                assert tensors.dtype_of(value).name == np.asarray(array).dtype.name


@every_op_with_legalize
def test_compiled_matches_reference(
    op: type[RelaxOperation], pytestconfig: pytest.Config, subtests: pytest.Subtests
) -> None:
    """The compiled operator agrees with its numpy reference."""
    for case in some_cases(op, pytestconfig, step=3):
        with subtests.test(case=str(case)):
            module = case_module(op, case)
            inputs = flat_inputs(case.random_inputs(seed=0))
            expected = reference.run(module, *inputs)

            actual = compile(module)(*inputs)

            assert_same_results(actual, expected, op.tolerance)
