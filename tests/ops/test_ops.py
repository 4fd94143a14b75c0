"""Tests of every operator on its own test cases."""

import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import compile
from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import assert_same_numbers, case_module, flat_inputs

_EVERY_CASE = [
    pytest.param(op, case, id=f"{op.OPERATION_NAME}-{case}")
    for op in relax_ops()
    for case in op.cases
]
# Every second case of an operator, and all of them in `make every-case`.
_SOME_CASES = [
    pytest.param(
        *(op, case),
        id=f"{op.OPERATION_NAME}-{case}",
        marks=[pytest.mark.every_case] * (number % 2),
    )
    for op in relax_ops()
    for number, case in enumerate(op.cases)
]


@pytest.mark.parametrize(("op", "case"), _SOME_CASES)
def test_text_round_trips(op: type[RelaxOperation], case: Case) -> None:
    """The printed module parses back to the same text."""
    text = str(case_module(op, case))

    assert str(IRModule.parse(text)) == text


@pytest.mark.parametrize(("op", "case"), _EVERY_CASE)
def test_inferred_type_matches_reference(op: type[RelaxOperation], case: Case) -> None:
    """The types from ``infer`` are those of the arrays from ``reference``."""
    module = case_module(op, case)

    results = reference.run(module, *flat_inputs(case.random_inputs(seed=0)))

    for value, array in zip(
        module.func_op("main").entry_block.operations[-1].operands,
        results,
        strict=True,
    ):
        assert tensors.shape_of(value) == np.asarray(array).shape
        assert tensors.dtype_of(value).name == np.asarray(array).dtype.name


@pytest.mark.parametrize(
    ("op", "case"), [c for c in _SOME_CASES if hasattr(c.values[0], "legalize")]
)
def test_compiled_matches_reference(op: type[RelaxOperation], case: Case) -> None:
    """The compiled operator agrees with its numpy reference."""
    module = case_module(op, case)
    inputs = flat_inputs(case.random_inputs(seed=0))
    expected = reference.run(module, *inputs)

    actual = compile(module)(*inputs)

    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert_same_numbers(
            ours, np.asarray(theirs), tolerance=op.tolerance, where=f"result {number}"
        )
