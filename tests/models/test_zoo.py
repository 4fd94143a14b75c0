"""Whole models: our compiled code against onnxruntime."""

import platform
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from models import zoo
from relax_mlir.testing import assert_same_numbers
from tests.models.zoo_models import zoo_models

onnxruntime = pytest.importorskip("onnxruntime")

_BY_NAME = {e.name: e for e in zoo.ENTRIES}
_QUICK = {"fashion_mlp", "mlp_b1", "squeezenet", "bert_tiny", "bert_tiny_decomposed"}
_LARGE = {"bert_base", "gpt2_decode", "light_resnet50", "mobilenet_v2"}


@pytest.mark.parametrize("entry", zoo_models(quick=_QUICK, like_others=_LARGE))
def test_agrees_with_onnxruntime(entry: zoo.Entry) -> None:
    """Outputs differ by no more than the order of sums explains."""
    data = entry.build().SerializeToString()
    inputs = entry.inputs()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)

    actual = relax_mlir.compile(data)(*inputs.values())

    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert_same_numbers(
            ours, theirs, tolerance=entry.tolerance, where=f"output {number}"
        )


@pytest.mark.parametrize(("batch", "sequence"), [(1, 7), (3, 16), (2, 33)])
def test_one_compile_serves_all_sizes(batch: int, sequence: int) -> None:
    """Batch and sequence stay open in the compiled model."""
    entry = _BY_NAME["bert_tiny"]
    data = entry.build().SerializeToString()
    inputs = entry.inputs(batch=batch, seq=sequence)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])

    (actual,) = relax_mlir.compile(data)(*inputs.values())

    (expected,) = session.run(None, inputs)
    assert_same_numbers(actual, expected, tolerance=entry.tolerance)


def test_each_pass_keeps_the_values() -> None:
    """Running the module after every pass gives what it gave before."""
    entry = _BY_NAME["fashion_mlp"]
    inputs = entry.inputs(batch=5)

    relax_mlir.compile(
        entry.build().SerializeToString(),
        verify="each-pass",
        inputs=list(inputs.values()),
        cache=False,
    )


def test_saved_model_answers_the_same(tmp_path: Path) -> None:
    """A saved file loads without the compiler's caches and gives equal numbers."""
    entry = _BY_NAME["fashion_mlp"]
    model = relax_mlir.compile(entry.build().SerializeToString())
    model.save(tmp_path / "model.rxm")
    images = entry.inputs(batch=3)["x"]

    (again,) = relax_mlir.load(tmp_path / "model.rxm")(images)

    np.testing.assert_array_equal(again, model(images)[0])


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
@pytest.mark.parametrize("target", ["cpu:x86-64-v2", "cpu:x86-64-v3"])
@pytest.mark.parametrize("name", ["mlp_b64", "squeezenet", "bert_tiny"])
def test_narrower_vectors_agree_with_onnxruntime(name: str, target: str) -> None:
    """128 and 256 bits, whatever this machine has."""
    entry = _BY_NAME[name]
    data = entry.build().SerializeToString()
    inputs = entry.inputs()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])

    actual = relax_mlir.compile(data, target=target)(*inputs.values())

    for ours, theirs in zip(actual, session.run(None, inputs), strict=True):
        assert_same_numbers(ours, theirs, tolerance=entry.tolerance, where=target)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "bert_tiny"])
def test_threads_change_no_bit(name: str) -> None:
    """Tiles are independent: who computes them does not matter."""
    entry = _BY_NAME[name]
    data = entry.build().SerializeToString()
    inputs = list(entry.inputs().values())

    alone = relax_mlir.compile(data)(*inputs)

    for _ in range(3):
        shared = relax_mlir.compile(data, threads=4)(*inputs)
        for ours, theirs in zip(shared, alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)
