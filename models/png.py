"""Greyscale PNG files as arrays, so that tests need no imaging library."""

import struct
import zlib
from pathlib import Path

import numpy as np


def read_grey(path: Path) -> np.ndarray:
    """Pixels [height, width] of an 8-bit greyscale PNG without interlacing.

    Raises:
        ValueError: another kind of PNG.

    Source: PNG specification, second edition, sections 5 and 9.
    """
    data = path.read_bytes()
    width, height, *kind = struct.unpack_from(">IIBBBBB", data, 16)
    if kind != [8, 0, 0, 0, 0]:
        raise ValueError(f"{path}: expected 8-bit grey without interlacing, got {kind}")
    lines = zlib.decompress(_image_data(data))
    pixels = np.zeros((height + 1, width + 1), np.uint8)  # a border of 0 above and left
    for y in range(height):
        line = lines[y * (width + 1) : (y + 1) * (width + 1)]
        pixels[y + 1, 1:] = _unfilter(line[0], line[1:], pixels[y].tolist())
    return pixels[1:, 1:]


def _image_data(data: bytes) -> bytes:
    chunks, position = [], 8
    while position < len(data):
        size, name = struct.unpack_from(">I4s", data, position)
        if name == b"IDAT":
            chunks.append(data[position + 8 : position + 8 + size])
        position += size + 12
    return b"".join(chunks)


def _unfilter(kind: int, line: bytes, above: list[int]) -> list[int]:
    """Undo filter `kind`; `above` is the row before, with its border pixel."""
    left, row = 0, []
    for x, byte in enumerate(line):
        corner, up = above[x], above[x + 1]
        guesses = (0, left, up, (left + up) // 2, _paeth(left, up, corner))
        left = (byte + guesses[kind]) % 256
        row.append(left)
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
