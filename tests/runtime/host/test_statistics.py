"""Statistics, warming up and log lines of models that compile while they run."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import relax_mlir
from relax_mlir.runtime.jit_statistics import JITStatistics


def parsed(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {body}')


# The axis is known when the model runs.
SUM = "g (float[n, 4] x, int64[1] axis) => (float[a, b] y) { y = ReduceSum(x, axis) }"


def test_calls_are_counted(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "relax_mlir")
    model = relax_mlir.compile(parsed(SUM), cache=tmp_path)
    assert model.statistics() == JITStatistics()
    x = np.ones((3, 4), np.float32)

    for axis in (0, 0, 1, 0):
        model(x, np.array([axis]))

    found = model.statistics()
    assert (found.hits, found.compilations) == (2, 2)
    assert found.compile_ms > 0
    names = [(r.name, r.getMessage().split(" in ")[0]) for r in caplog.records]
    subgraph = ("relax_mlir.jit", "compiled a subgraph of 1 nodes with the inputs x")
    assert names.count(subgraph) == 2
    assert ("relax_mlir.compile", "compiled for `cpu`") in names


def test_a_model_that_was_warmed_up_compiles_no_more(tmp_path: Path) -> None:
    model = relax_mlir.compile(parsed(SUM), cache=tmp_path)

    model.warm_up(shapes={"x": [3, 4]}, values={"axis": np.array([1])})

    assert model.statistics().compilations == 1
    (y,) = model(np.ones((3, 4), np.float32), np.array([1]))
    np.testing.assert_array_equal(y, np.full((3, 1), 4))
    assert model.statistics().compilations == 1


def test_subgraphs_are_kept_on_disk(tmp_path: Path) -> None:
    """A second process loads what a first one compiled, also for open sizes."""
    x, axis = np.ones((3, 4), np.float32), np.array([0])
    for compilations, loads in ((2, 0), (0, 2)):
        model = relax_mlir.compile(parsed(SUM), cache=tmp_path)
        for rows in (3, 5, 7):
            given = np.ones((rows, 4), np.float32)
            np.testing.assert_array_equal(model(given, axis)[0], np.full((1, 4), rows))
        found = model.statistics()
        assert (found.compilations, found.loads) == (compilations, loads)
    # Other values, and other types, are other code.
    model = relax_mlir.compile(parsed(SUM), cache=tmp_path)
    np.testing.assert_array_equal(model(x, np.array([1]))[0], np.full((3, 1), 4))
    assert model.statistics().compilations == 1


def test_models_of_every_kind_are_warmed_up() -> None:
    model = relax_mlir.compile(
        parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    )

    model.warm_up(shapes={"x": [2, 4]})

    assert model.statistics() == JITStatistics()
    with pytest.raises(
        ValueError, match=r"input `x`: expected a shape.*Hint: `warm_up"
    ):
        model.warm_up()
    with pytest.raises(TypeError, match="expected inputs `x` by name, got `z`"):
        model.warm_up(shapes={"z": [1]})
    with pytest.raises(ValueError, match="dimension 1: expected 4, got 5"):
        model.warm_up(shapes={"x": [2, 5]})


def test_other_broadcasting_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = relax_mlir.compile(
        parsed("g (float[n] x, float[m] w) => (float[k] y) { y = Add(x, w) }")
    )
    model(np.ones(3, np.float32), np.ones(3, np.float32))
    assert model.statistics().compilations == 0

    for _ in range(2):
        (y,) = model(np.ones(3, np.float32), np.ones(1, np.float32))
        np.testing.assert_array_equal(y, [2, 2, 2])

    assert model.statistics().compilations == 1


@pytest.mark.slow
def test_nothing_is_printed_by_default() -> None:
    code = (
        "import logging, relax_mlir\n"
        "from relax_mlir.support.log import log\n"
        "log(40, 'jit', 'text %d', 1)\n"
        "logging.basicConfig(format='%(name)s %(message)s')\n"
        "log(40, 'jit', 'text %d', 2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "relax_mlir.jit text 2\n")
