"""The networks that are measured, each with fixed sizes."""

import re
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx

from models import bert, minilm, zoo
from models.graph import Graph

__all__ = [
    "CONVOLUTIONS",
    "NETWORKS",
    "PRODUCTS",
    "Network",
    "network",
    "product_sizes",
]


@dataclass(frozen=True)
class Network:
    """A model, and what is asked of it.

    Attributes:
        entry: builds it.
        counts: whether it is part of the means.
        bf16: whether it is measured in bf16, too.
        winograd: whether it has convolutions that Winograd computes, so that it is
            measured without Winograd, too.
    """

    entry: zoo.Entry
    counts: bool = True
    bf16: bool = False
    winograd: bool = False

    @property
    def name(self) -> str:
        """Of the entry."""
        return self.entry.name


def _of_zoo(name: str, found: str = "") -> zoo.Entry:
    entry = zoo.entry(found or name)
    if not isinstance(entry, zoo.Entry):
        raise KeyError(name)
    return replace(entry, name=name)


def _encoder(name: str) -> zoo.Entry:
    """A BERT of one row of 128 tokens."""
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

# Products of a matrix by a constant one: rows, depth, columns.
_SIZES = (
    *((n, n, n) for n in (512, 1024, 2048)),
    (128, 768, 768),
    (128, 768, 3072),
    (128, 3072, 768),
)
_PRODUCT = re.compile(r"gemm_(\d+)x(\d+)x(\d+)")


def _product(m: int, k: int, n: int) -> zoo.Entry:
    """[m, k] by a constant [k, n]."""

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


PRODUCTS = tuple(f"gemm_{m}x{k}x{n}" for m, k, n in _SIZES)


def product_sizes(name: str) -> tuple[int, int, int]:
    """Rows, depth and columns of one of `PRODUCTS`."""
    found = _PRODUCT.fullmatch(name)
    if found is None:
        raise KeyError(name)
    m, k, n = map(int, found.groups())
    return m, k, n


# Chains of 3x3 convolutions with as many input as output channels: channels, image size.
_IMAGES = ((64, 56), (128, 28), (256, 14), (512, 14))
_CHAINS = {f"conv3x3_{c}x{n}x{n}": (c, n) for c, n in _IMAGES}
_LENGTH = 4  # convolutions of a chain, beside which changes of the layout are small
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
    """The network, the chain of convolutions or the product called ``name``.

    Raises:
        KeyError: there is none.
    """
    by_name = {n.name: n for n in NETWORKS}
    if name in by_name:
        return by_name[name]
    if name in _CHAINS:
        return Network(_chain(name), counts=False, winograd=True)
    return Network(_product(*product_sizes(name)), counts=False)
