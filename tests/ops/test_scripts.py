"""Round trip of every operator's tensor program through TVMScript, with the same results.

CI runs one test case of each operator; ``make scripts`` runs every case.
"""

from collections.abc import Mapping

import pytest

from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import compile
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import case_module, flat_inputs
from relax_mlir.tvm.relax.transform import LegalizeOps
from relax_mlir.tvm.script import from_source
from tests.ops.cases import assert_same_results, every_op, some_cases

# Programs that TVMScript cannot express, and the operation that it lacks.
_VECTORS = r"`vector\.(load|maskedload|store|maskedstore)`: TVMScript cannot express"
_UNSPELLED: Mapping[str, str] = {
    # Their loops load and store several units as vectors, under a mask at the end.
    "relax.nn_gru": _VECTORS,
    "relax.nn_lstm": _VECTORS,
    "relax.nn_rnn": _VECTORS,
}


@every_op
def test_script_matches_reference(
    op: type[RelaxOperation], pytestconfig: pytest.Config, subtests: pytest.Subtests
) -> None:
    for case in some_cases(op, pytestconfig, step=len(op.cases)):
        with subtests.test(case=str(case)):
            _check_script(op, case)


def _check_script(op: type[RelaxOperation], case: Case) -> None:
    module = case_module(op, case)
    legal = LegalizeOps()(module)
    if op.OPERATION_NAME in _UNSPELLED:
        with pytest.raises(ValueError, match=_UNSPELLED[op.OPERATION_NAME]):
            legal.script()
        return
    inputs = flat_inputs(case.random_inputs(seed=0))
    expected = reference.run(module, *inputs)

    again = from_source(legal.script(show_meta=True))

    assert_same_results(compile(again)(*inputs), expected, op.tolerance)
