"""PrimFuncs generated from operators are schedulable."""

import numpy as np
import pytest

from relax_mlir import opt
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import compile
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import assert_same_numbers, case_module, flat_inputs
from relax_mlir.tvm.tir import Schedule
from relax_mlir.tvm.tir.schedule import BlockRV

_LEGALIZED = [op for op in relax_ops() if hasattr(op, "legalize")]
# One of each form that programs have: sums, loops that carry values, none at all.
_FORMS = ("add", "max", "cumsum", "lp_pool", "nn_conv2d", "nn_softmax", "tree_leaves")


def _blocks_below(schedule: Schedule, scope: BlockRV) -> list[BlockRV]:
    below = schedule.get_child_blocks(scope)
    return [*below, *(b for s in below for b in _blocks_below(schedule, s))]


def _check(op: type[RelaxOperation], case: Case) -> None:
    module = case_module(op, case)
    inputs = flat_inputs(case.random_inputs(seed=0))
    schedule = Schedule(opt(module, "relax-legalize"))

    for program in schedule.state.func_names():
        schedule.work_on(program)
        for block in _blocks_below(schedule, schedule.get_block("root")):
            axes = len(schedule.get(block).iter_vars)
            loops = schedule.get_loops(block)
            assert len(loops) == axes
            assert all(schedule.get(loop).loop_var is not None for loop in loops)
            if loops:
                schedule.split(loops[0], [None, 3])

    actual = compile(schedule.mod)(*inputs)
    for ours, theirs in zip(actual, reference.run(module, *inputs), strict=True):
        assert_same_numbers(ours, np.asarray(theirs), tolerance=op.tolerance)


@pytest.mark.parametrize("name", _FORMS)
def test_programs_of_operators_have_loops_to_split(name: str) -> None:
    (op,) = (o for o in _LEGALIZED if f"relax.{name}" == o.OPERATION_NAME)
    _check(op, op.cases[0])


@pytest.mark.every_case
@pytest.mark.parametrize("op", _LEGALIZED, ids=lambda op: op.OPERATION_NAME)
def test_programs_of_all_operators_have_loops_to_split(
    op: type[RelaxOperation],
) -> None:
    _check(op, op.cases[0])
