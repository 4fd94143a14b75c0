"""Training of the Fashion-MNIST classifier `models/fashion_mlp.onnx`.

Uses only numpy and is seeded, so the same machine writes the same file. It takes half a
minute on one core::

    apt-get install dataset-fashion-mnist   # `dpkg -L` prints the folder
    OMP_NUM_THREADS=1 python -m models.train_fashion_mlp FOLDER
"""

import argparse
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx

from models import fashion_mlp
from models.graph import Graph

Parameters = dict[str, np.ndarray]

_EPOCHS = 80
_BATCH = 256
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 0.1  # chosen on 10,000 held-out training images: 0.899 correct
_AVERAGE = 0.999  # decay of the averaged weights: mean over about 1,000 steps
_SHIPPED_IMAGES = 1000


def read_idx(path: Path) -> np.ndarray:
    """Read one gzipped IDX file of bytes: magic number, sizes, then the data."""
    raw = gzip.decompress(path.read_bytes())
    rank = raw[3]
    shape = np.frombuffer(raw, ">u4", count=rank, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def forward(p: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Logits [n, 10] of images [n, 784] in 0..1."""
    hidden = np.maximum(x @ p["w0"].T + p["b0"], 0)
    return hidden @ p["w1"].T + p["b1"]


def gradients(p: Parameters, x: np.ndarray, labels: np.ndarray) -> Parameters:
    """Gradients of the mean cross entropy over the batch [n, 784]."""
    hidden = np.maximum(x @ p["w0"].T + p["b0"], 0)
    logits = hidden @ p["w1"].T + p["b1"]
    error = np.exp(logits - logits.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    back = (error @ p["w1"]) * (hidden > 0)
    return {
        "w0": back.T @ x,
        "b0": back.sum(0),
        "w1": error.T @ hidden,
        "b1": error.sum(0),
    }


def mirror_half(rng: np.random.Generator, images: np.ndarray) -> np.ndarray:
    """Augmentation: mirror about half of the images [n, 28, 28]."""
    return np.where(rng.random((len(images), 1, 1)) < 0.5, images[:, :, ::-1], images)


def train(images: np.ndarray, labels: np.ndarray, *, seed: int = 0) -> Parameters:
    """Train with AdamW, a cosine schedule and averaged weights.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
    """
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal
    p: Parameters = {
        "w0": normal((128, 784), np.float32) * np.float32((2 / 784) ** 0.5),
        "b0": np.zeros(128, np.float32),
        "w1": normal((10, 128), np.float32) * np.float32((1 / 128) ** 0.5),
        "b1": np.zeros(10, np.float32),
    }
    average = {name: value.copy() for name, value in p.items()}
    moment = {name: np.zeros_like(value) for name, value in p.items()}
    square = {name: np.zeros_like(value) for name, value in p.items()}
    steps = _EPOCHS * (len(images) // _BATCH)
    for step, chosen in enumerate(_batches(rng, len(images))):
        x = mirror_half(rng, images[chosen]).reshape(-1, 784).astype(np.float32) / 255
        rate = _LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name, g in gradients(p, x, labels[chosen]).items():
            moment[name] += 0.1 * (g - moment[name])
            square[name] += 0.001 * (g * g - square[name])
            corrected = moment[name] / (1 - 0.9 ** (step + 1))
            scale = np.sqrt(square[name] / (1 - 0.999 ** (step + 1))) + 1e-8
            decay = _WEIGHT_DECAY * p[name] if name.startswith("w") else 0
            p[name] -= (rate * (corrected / scale + decay)).astype(np.float32)
            average[name] += (1 - _AVERAGE) * (p[name] - average[name])
    return average


def _batches(rng: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Indices of each batch, shuffled per epoch; an incomplete last batch is dropped."""
    for _ in range(_EPOCHS):
        order = rng.permutation(count)
        for start in range(0, count - _BATCH + 1, _BATCH):
            yield order[start : start + _BATCH]


def export(p: Parameters) -> onnx.ModelProto:
    """The trained classifier as Gemm, Relu, Gemm over a symbolic batch `n`."""
    g = Graph("fashion_mlp", opset=21)
    x = g.input("x", ("n", 784))
    hidden = g.node(
        "Gemm", x, g.weight("w0", p["w0"]), g.weight("b0", p["b0"]), transB=1
    )
    hidden = g.node("Relu", hidden)
    weights = g.weight("w1", p["w1"]), g.weight("b1", p["b1"])
    g.output("logits", g.node("Gemm", hidden, *weights, transB=1), ("n", 10))
    return g.model()


def main() -> None:
    """Train, report the accuracy on all test images, write the shipped files."""
    parser = argparse.ArgumentParser(description="Train the Fashion-MNIST model.")
    parser.add_argument(
        "folder", type=Path, help="folder of the dataset-fashion-mnist package"
    )
    folder = parser.parse_args().folder
    images = read_idx(folder / "train-images-idx3-ubyte.gz")
    labels = read_idx(folder / "train-labels-idx1-ubyte.gz")
    test_images = read_idx(folder / "t10k-images-idx3-ubyte.gz")
    test_labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz")

    p = train(images, labels)
    logits = forward(p, test_images.reshape(-1, 784).astype(np.float32) / 255)
    print(f"test accuracy: {(logits.argmax(1) == test_labels).mean():.4f}")

    onnx.save(export(p), fashion_mlp.path())
    np.savez_compressed(
        fashion_mlp.images_path(),
        images=test_images[:_SHIPPED_IMAGES],
        labels=test_labels[:_SHIPPED_IMAGES],
    )


if __name__ == "__main__":
    main()
