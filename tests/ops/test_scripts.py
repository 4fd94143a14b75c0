"""Round trip of every operator's tensor program through TVMScript, with the same results.

CI runs one test case of each operator; ``make scripts`` runs every case.
"""

from collections.abc import Mapping

import numpy as np
import pytest

from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import compile
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing import assert_same_numbers, case_module, flat_inputs
from relax_mlir.tvm.relax.transform import LegalizeOps
from relax_mlir.tvm.script import from_source

# Programs that TVMScript cannot express, and the operation that it lacks.
_VECTORS = r"`vector\.(load|maskedload|store|maskedstore)`: TVMScript cannot express"
_UNSPELLED: Mapping[str, str] = {
    # Their loops load and store several units as vectors, under a mask at the end.
    "relax.nn_gru": _VECTORS,
    "relax.nn_lstm": _VECTORS,
    "relax.nn_rnn": _VECTORS,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    takes_all = metafunc.config.getoption("--every-case")
    parameters = [
        pytest.param(op, case, id=f"{op.OPERATION_NAME}-{case}")
        for op in relax_ops()
        for case in (op.cases if takes_all else op.cases[:1])
    ]
    metafunc.parametrize(("op", "case"), parameters)


def test_script_matches_reference(op: type[RelaxOperation], case: Case) -> None:
    module = case_module(op, case)
    legal = LegalizeOps()(module)
    if op.OPERATION_NAME in _UNSPELLED:
        with pytest.raises(ValueError, match=_UNSPELLED[op.OPERATION_NAME]):
            legal.script()
        return
    inputs = flat_inputs(case.random_inputs(seed=0))
    expected = list(map(np.asarray, reference.run(module, *inputs)))

    again = from_source(legal.script(show_meta=True))

    actual = compile(again)(*inputs)
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert_same_numbers(
            np.asarray(ours), theirs, tolerance=op.tolerance, where=f"result {number}"
        )
