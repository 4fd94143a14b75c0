"""Benchmark networks, matmuls and convolution chains, all with static shapes."""

import re
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx

from models import bert, minilm, zoo
from models.graph import Graph

__all__ = [
    "CONVOLUTIONS",
    "MATMULS",
    "NETWORKS",
    "Network",
    "matmul_sizes",
    "network",
]


@dataclass(frozen=True)
class Network:
    """A benchmark network.

    Attributes:
        entry: the model and its inputs.
        counts: whether it is included in mean speedups.
        bf16: whether it is also measured in bf16.
        winograd: whether it has Winograd convolutions, and is also measured without.
    """

    entry: zoo.Entry
    counts: bool = True
    bf16: bool = False
    winograd: bool = False

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.entry.name


def _of_zoo(name: str, found: str = "") -> zoo.Entry:
    entry = zoo.entry(found or name)
    if not isinstance(entry, zoo.Entry):
        raise KeyError(name)
    return replace(entry, name=name)


def _encoder(name: str) -> zoo.Entry:
    """A BERT model with batch 1 and 128 tokens."""
    build = {"bert_base": bert.build, "minilm": minilm.build}[name]
    return replace(_of_zoo(name), build=partial(build, seq=128))


NETWORKS = (
    Network(_of_zoo("mlp_b1")),
    Network(_of_zoo("mlp_b64")),
    Network(_of_zoo("resnet50", "light_resnet50"), bf16=True, winograd=True),
    Network(_of_zoo("mobilenet_v2")),
    Network(_of_zoo("squeezenet", "light_squeezenet"), winograd=True),
    Network(_of_zoo("densenet121", "light_densenet121"), winograd=True),
    Network(_of_zoo("vgg19", "light_vgg19"), winograd=True),
    Network(_encoder("bert_base"), bf16=True),
    Network(_encoder("minilm"), bf16=True),
    Network(_of_zoo("gpt2_prefill")),
    Network(_of_zoo("gpt2_decode")),
    Network(_of_zoo("lstm")),
    Network(_of_zoo("unet"), bf16=True, winograd=True),
    Network(_of_zoo("gru"), counts=False),
    Network(_of_zoo("shufflenet", "light_shufflenet"), counts=False),
    Network(_of_zoo("inception_v1", "light_inception_v1"), counts=False, winograd=True),
    Network(_of_zoo("alexnet", "light_bvlc_alexnet"), counts=False, winograd=True),
)

# Matmuls with a constant matrix: m, k, n.
_SIZES = (
    *((n, n, n) for n in (512, 1024, 2048)),
    (128, 768, 768),
    (128, 768, 3072),
    (128, 3072, 768),
)
_MATMUL = re.compile(r"gemm_(\d+)x(\d+)x(\d+)")


def _matmul(m: int, k: int, n: int) -> zoo.Entry:
    """Matmul of [m, k] and a constant [k, n]."""

    def build() -> onnx.ModelProto:
        g = Graph("gemm")
        x = g.input("x", (m, k))
        weight = g.normal("weight", (k, n), k**-0.5)
        g.output("y", g.node("MatMul", x, weight), (m, n))
        return g.model()

    def inputs(seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"x": rng.standard_normal((m, k), np.float32)}

    return zoo.Entry(f"gemm_{m}x{k}x{n}", build, inputs, tolerance=1e-4)


MATMULS = tuple(f"gemm_{m}x{k}x{n}" for m, k, n in _SIZES)


def matmul_sizes(name: str) -> tuple[int, int, int]:
    """m, k and n of one of `MATMULS`."""
    found = _MATMUL.fullmatch(name)
    if found is None:
        raise KeyError(name)
    m, k, n = map(int, found.groups())
    return m, k, n


# Chains of 3x3 convolutions with equal input and output channels: channels, image size.
_IMAGES = ((64, 56), (128, 28), (256, 14), (512, 14))
_CHAINS = {f"conv3x3_{c}x{n}x{n}": (c, n) for c, n in _IMAGES}
_LENGTH = 4  # convolutions per chain, to amortize layout conversions
CONVOLUTIONS = tuple(_CHAINS)


def _chain(name: str) -> zoo.Entry:
    """A chain of 3x3 convolutions with stride 1, each followed by a relu."""
    channels, size = _CHAINS[name]
    shape = (1, channels, size, size)

    def build() -> onnx.ModelProto:
        g = Graph("convolutions")
        x = g.input("x", shape)
        for layer in range(_LENGTH):
            scale = (2 / (9 * channels)) ** 0.5  # keeps the variance under relu
            weight = g.normal(f"weight{layer}", (channels, channels, 3, 3), scale)
            x = g.node("Relu", g.node("Conv", x, weight, pads=[1, 1, 1, 1]))
        g.output("y", x, shape)
        return g.model()

    def inputs(seed: int = 0) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng(seed).standard_normal(shape, np.float32)}

    return zoo.Entry(name, build, inputs, tolerance=1e-4)


def network(name: str) -> Network:
    """A network, convolution chain or matmul by name.

    Raises:
        KeyError: the name is unknown.
    """
    by_name = {n.name: n for n in NETWORKS}
    if name in by_name:
        return by_name[name]
    if name in _CHAINS:
        return Network(_chain(name), counts=False, winograd=True)
    return Network(_matmul(*matmul_sizes(name)), counts=False)
