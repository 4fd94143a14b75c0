"""The translation of benchmark models to torch agrees with onnxruntime."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import parser

from benchmarks.networks import NETWORKS, Network
from models import bert, gpt2, lstm, unet
from relax_mlir.testing import assert_same_numbers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, of its imports
    torch = pytest.importorskip("torch")
    translation = pytest.importorskip("benchmarks.onnx_to_torch")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.slow

Arrays = dict[str, np.ndarray]

_DECODER = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}
_SMALL: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[], Arrays]]] = {
    "bert": (
        partial(bert.build, 2, 64, 4, 100, 16),
        partial(bert.inputs, seq=16, vocab=100),
    ),
    "gpt2_prefill": (
        partial(gpt2.build, 5, **_DECODER),
        partial(gpt2.inputs, tokens=5, **_DECODER),
    ),
    "gpt2_decode": (
        partial(gpt2.build, 1, 7, **_DECODER),
        partial(gpt2.inputs, tokens=1, past=7, **_DECODER),
    ),
    "lstm": (partial(lstm.build, seq=5), partial(lstm.inputs, seq=5)),
    "gru": (partial(lstm.build, "GRU", seq=5), partial(lstm.inputs, seq=5)),
    "unet": (partial(unet.build, width=4, size=32), partial(unet.inputs, size=32)),
}


def compare(model: onnx.ModelProto, inputs: Arrays, tolerance: float) -> None:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    module = translation.to_torch(model)
    arguments = [torch.from_numpy(inputs[name]) for name in module.input_names]

    with torch.no_grad():
        actual = module(*arguments)

    for ours, theirs in zip(actual, session.run(None, inputs), strict=True):
        assert_same_numbers(ours.numpy(), theirs, tolerance=tolerance)


@pytest.mark.parametrize("name", _SMALL)
def test_small_network_computes_the_same(name: str) -> None:
    build, inputs = _SMALL[name]
    compare(build(), inputs(), 1e-5)  # sums in another order


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_benchmark_network_computes_the_same(network: Network) -> None:
    entry = network.entry
    compare(entry.build(), entry.inputs(), entry.tolerance)


def test_average_pool_excludes_asymmetric_padding() -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[1, 2, 5, 4] x) => (float[1, 2, 3, 2] y) {
          y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 1, 1]> (x)
        }"""
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 4), np.float32)

    compare(model, {"x": x}, 1e-6)


def test_unsupported_operator_is_named() -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[3] x) => (float[3] y) { y = Det (x) }"""
    )

    with pytest.raises(NotImplementedError, match=r"\(Det\): no rule for it"):
        translation.to_torch(model)
