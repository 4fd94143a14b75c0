"""Each operator's program, as a script that is read back, computes the same.

CI runs a case of each operator; ``make scripts`` runs every case.
"""

from collections.abc import Mapping

import numpy as np
import pytest

from relax_mlir import reference
from relax_mlir.compiler import compile
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.relax.transform import LegalizeOps
from relax_mlir.script import from_source
from relax_mlir.testing import assert_same_numbers, case_module, flat_inputs

# Programs that no script can spell, and the operation for which there is no spelling.
_VECTORS = r"`vector\.(load|maskedload|store|maskedstore)`: a script has no spelling"
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


def test_a_script_computes_what_the_operator_does(
    op: type[RelaxOperation], case: Case
) -> None:
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
