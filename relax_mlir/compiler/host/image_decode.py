"""Decoding of compressed images by Pillow."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.errors import RunError, UnsupportedError
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["RUNNERS"]

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


def image_decoder(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The pixels [height, width, channels] of an image; empty if it cannot be decoded.

    Source: ONNX ImageDecoder-20.
    """
    pixel_format = node.attrs.get("pixel_format", b"RGB").decode()
    if pixel_format not in _MODES:
        expected = ", ".join(_MODES)
        raise ValueError(
            f"pixel_format: expected one of {expected}, got `{pixel_format}`"
        )
    data = as_numpy(node.tensor(values, 0))
    if data.ndim != 1:
        raise RunError(f"{node}: expected bytes of rank 1, got rank {data.ndim}")
    pixels = _pixels(data.tobytes(), _MODES[pixel_format], str(node))
    if pixels is None:
        pixels = np.zeros((0, 0, 3), np.uint8)
    if pixel_format == "Grayscale":
        pixels = pixels[..., :1] if pixels.ndim == 3 else pixels[..., np.newaxis]
    return [
        NDArray(
            np.ascontiguousarray(pixels[..., ::-1] if pixel_format == "BGR" else pixels)
        )
    ]


def _pixels(data: bytes, mode: str, where: str) -> np.ndarray | None:
    try:
        from PIL import Image
    except ImportError as error:
        raise UnsupportedError(
            f"{where}: expected the package `pillow` to decode images, got none. Hint: "
            "`pip install relax_mlir[pictures]`"
        ) from error
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.array(image.convert(mode))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # the standard asks for an empty image


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "ImageDecoder": image_decoder,
}
