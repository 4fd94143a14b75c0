"""RoI pooling and other operators computed by extern PrimFuncs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from relax_mlir.compiler import reference
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.roi import VisionRoiAlignOp, VisionRoiPoolOp
from relax_mlir.testing import assert_same_numbers, case_module
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.te import Tensor
from tests.tvm.te.programs import evaluate

_EVERY_CASE = [
    pytest.param(op, function, case, id=f"{function.__name__}-{case}")
    for op, function in (
        (VisionRoiAlignOp, topi.vision.roi_align),
        (VisionRoiPoolOp, topi.vision.roi_pool),
    )
    for case in op.cases
]


@pytest.mark.parametrize(("op", "function", "case"), _EVERY_CASE)
def test_roi_pooling_matches_the_relax_operator(
    op: type[RelaxOperation], function: Callable[..., Tensor], case: Case
) -> None:
    inputs = case.random_inputs(seed=0)
    (expected,) = reference.run(case_module(op, case), *inputs)

    found = evaluate(lambda data, rois: function(data, rois, **case.attrs), *inputs)

    assert_same_numbers(found, expected, tolerance=op.tolerance)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sizes_may_be_symbolic_expressions(dtype: str) -> None:
    n, r = te.var("n", dtype), te.var("r", dtype)
    data = te.placeholder((n, 3, n * 2, 7), name="data")
    rois = te.placeholder((r, 5), name="rois")

    made = topi.nn.relu(topi.vision.roi_pool(data, rois, 2, 1.0))

    assert str(made.shape) == "(r, 3, 2, 2)"
    script = te.create_prim_func([data, rois, made]).script()
    assert "in T.parallel(" in script
    assert "var_data, (n, 3, n * " in script


def test_unsupported_layouts_are_rejected() -> None:
    data, rois = te.placeholder((1, 4, 4, 2)), te.placeholder((3, 5))

    with pytest.raises(ValueError, match=r"bad layout: expected NCHW, got `NHWC`"):
        topi.vision.roi_pool(data, rois, (2, 2), 1.0, layout="NHWC")


def _doubled() -> te.Tensor:
    x = te.placeholder((3,), "float32", "x")
    return te.compute((3,), lambda i: x[i] + x[i], "doubled")


def test_extern_primfunc_results_are_tensors() -> None:
    doubled = _doubled()
    program = te.create_prim_func([*doubled.op.input_tensors, doubled])

    found = evaluate(
        lambda x: topi.negative(te.extern_primfunc([x], program)),
        np.array([1, 2, 3], np.float32),
    )

    assert found.tolist() == [-2, -4, -6]


def test_extern_primfunc_checks_its_inputs() -> None:
    doubled = _doubled()
    program = te.create_prim_func([*doubled.op.input_tensors, doubled])
    wrong, right = te.placeholder((3,), "int8"), te.placeholder((3,), "float32")

    with pytest.raises(
        ValueError, match=r"input 0: expected rank 1 of float32, got rank 1 of int8"
    ):
        te.extern_primfunc([wrong], program)
    with pytest.raises(ValueError, match=r"results after 2 inputs, got 2 buffers"):
        te.extern_primfunc([right, right], program)
