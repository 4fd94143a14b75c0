"""Compressed pictures, which Pillow reads."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import RunError, UnsupportedError
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.host_node import HostNode

__all__ = ["RUNNERS"]

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


def image_decoder(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The pixels (height, width, channels) of a picture; none if it cannot be read.

    Source: ONNX ImageDecoder-20.
    """
    form = node.attrs.get("pixel_format", b"RGB").decode()
    if form not in _MODES:
        expected = ", ".join(_MODES)
        raise ValueError(f"pixel_format: expected one of {expected}, got `{form}`")
    data = as_numpy(node.tensor(values, 0))
    if data.ndim != 1:
        raise RunError(f"{node}: expected bytes of rank 1, got rank {data.ndim}")
    pixels = _pixels(data.tobytes(), _MODES[form], str(node))
    if pixels is None:
        pixels = np.zeros((0, 0, 3), np.uint8)
    if form == "Grayscale":
        pixels = pixels[..., :1] if pixels.ndim == 3 else pixels[..., np.newaxis]
    return [
        NDArray(np.ascontiguousarray(pixels[..., ::-1] if form == "BGR" else pixels))
    ]


def _pixels(data: bytes, mode: str, where: str) -> np.ndarray | None:
    try:
        from PIL import Image
    except ImportError as error:
        raise UnsupportedError(
            f"{where}: expected the package `pillow` to read pictures, got none. Hint: "
            "`pip install relax_mlir[pictures]`"
        ) from error
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return np.array(picture.convert(mode))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # as the standard has it


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "ImageDecoder": image_decoder,
}
