"""Regions of pictures, and other tensors that programs of operators compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from relax_mlir import reference, te, topi
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.regions import VisionRoiAlignOp, VisionRoiPoolOp
from relax_mlir.te import Tensor
from relax_mlir.testing import assert_same_numbers, case_module
from tests.te.programs import evaluate

_EVERY_CASE = [
    pytest.param(op, function, case, id=f"{function.__name__}-{case}")
    for op, function in (
        (VisionRoiAlignOp, topi.vision.roi_align),
        (VisionRoiPoolOp, topi.vision.roi_pool),
    )
    for case in op.cases
]


@pytest.mark.parametrize(("op", "function", "case"), _EVERY_CASE)
def test_regions_are_those_of_the_operator(
    op: type[RelaxOperation], function: Callable[..., Tensor], case: Case
) -> None:
    inputs = case.random_inputs(seed=0)
    (expected,) = reference.run(case_module(op, case), *inputs)

    found = evaluate(lambda data, rois: function(data, rois, **case.attrs), *inputs)

    assert_same_numbers(found, expected, tolerance=op.tolerance)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sizes_may_be_terms(dtype: str) -> None:
    n, r = te.var("n", dtype), te.var("r", dtype)
    data = te.placeholder((n, 3, n * 2, 7), name="data")
    rois = te.placeholder((r, 5), name="rois")

    made = topi.nn.relu(topi.vision.roi_pool(data, rois, 2, 1.0))

    assert str(made.shape) == "(r, 3, 2, 2)"
    script = te.create_prim_func([data, rois, made]).script()
    assert "in T.parallel(" in script
    assert "var_data, (n, 3, n * " in script


def test_a_layout_that_pooling_does_not_take_is_refused() -> None:
    data, rois = te.placeholder((1, 4, 4, 2)), te.placeholder((3, 5))

    with pytest.raises(ValueError, match=r"bad layout: expected NCHW, got `NHWC`"):
        topi.vision.roi_pool(data, rois, (2, 2), 1.0, layout="NHWC")


def _doubled() -> te.Tensor:
    x = te.placeholder((3,), "float32", "x")
    return te.compute((3,), lambda i: x[i] + x[i], "doubled")


def test_tensors_may_be_what_a_program_computes() -> None:
    doubled = _doubled()
    program = te.create_prim_func([*doubled.op.input_tensors, doubled])

    found = evaluate(
        lambda x: topi.negative(te.extern_primfunc([x], program)),
        np.array([1, 2, 3], np.float32),
    )

    assert found.tolist() == [-2, -4, -6]


def test_inputs_have_to_fit_the_parameters_of_a_program() -> None:
    doubled = _doubled()
    program = te.create_prim_func([*doubled.op.input_tensors, doubled])
    wrong, right = te.placeholder((3,), "int8"), te.placeholder((3,), "float32")

    with pytest.raises(
        ValueError, match=r"input 0: expected rank 1 of float32, got rank 1 of int8"
    ):
        te.extern_primfunc([wrong], program)
    with pytest.raises(ValueError, match=r"results behind 2 inputs, got 2 buffers"):
        te.extern_primfunc([right, right], program)
