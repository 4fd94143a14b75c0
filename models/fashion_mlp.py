"""Trained Fashion-MNIST classifier, 784-128-10, and 1,000 test images."""

from pathlib import Path

import numpy as np
import onnx

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

tolerance = 1e-4


def path() -> Path:
    """The shipped model: ``x: float[n, 784]`` to ``logits: float[n, 10]``."""
    return Path(__file__).with_name("fashion_mlp.onnx")


def images_path() -> Path:
    """The shipped images and labels, as numpy's compressed archive."""
    return Path(__file__).with_name("fashion_mnist_test_1000.npz")


def build() -> onnx.ModelProto:
    """Load the shipped model."""
    return onnx.load(path())


def load_images() -> tuple[np.ndarray, np.ndarray]:
    """The first 1,000 test images, [1000, 784] in 0..1, and their labels [1000].

    Source: Xiao, Rasul, Vollgraf, Fashion-MNIST, 2017; see LICENSE-fashion-mnist.
    """
    with np.load(images_path()) as archive:
        images, labels = archive["images"], archive["labels"]
    return images.reshape(-1, 784).astype(np.float32) / 255, labels


def inputs(seed: int = 0, *, batch: int = 16) -> dict[str, np.ndarray]:
    """`batch` of the shipped images, selected by `seed`."""
    images, _ = load_images()
    chosen = np.random.default_rng(seed).choice(len(images), batch, replace=False)
    return {"x": images[chosen]}
