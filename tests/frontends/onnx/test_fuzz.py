"""Damaged models and absurd inputs end in a result or a clear exception.

Two thousand run with ``make fuzz``; this is the first part of them.
"""

import numpy as np
import pytest

import relax_mlir
from tests.frontends.onnx import fuzz, fuzz_models

# But for the one whose weights are in a file.
_WHOLE = [base for base in fuzz_models.bases() if base.name != "external"]


@pytest.mark.slow  # whole models in a process of their own
def test_mutants_compute_or_raise_clear_errors() -> None:
    outcomes = fuzz.run(range(90))

    assert len(outcomes) == 90
    bad = [str(outcome) for outcome in outcomes if not outcome.is_good]
    assert not bad, "\n".join(bad)
    kinds = [outcome.kind for outcome in outcomes]
    assert all(kinds.count(kind) > 10 for kind in ("ran", "refused at run"))


@pytest.mark.slow  # waits for a process that is killed
def test_crashes_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "_WALL", 0.0)

    (outcome,) = fuzz.run([0])

    assert outcome.kind == "hang"
    assert not outcome.is_good


@pytest.mark.slow  # compiles some
@pytest.mark.parametrize("base", _WHOLE, ids=lambda base: base.name)
def test_undamaged_models_run(base: fuzz_models.Base) -> None:
    module = relax_mlir.import_onnx(base.model)
    names = module.func_op("main").attributes["relax.input_names"]

    results = relax_mlir.compile(module)(*(base.feeds[n.value] for n in names))

    assert len(results) == len(base.model.graph.output)
    assert all(isinstance(result, np.ndarray) for result in results)
