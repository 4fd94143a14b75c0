"""PNG reader, so that tests need no imaging library."""

import struct
import zlib
from pathlib import Path

import numpy as np

_COLOUR_TYPES = {1: 0, 3: 2}  # by channels


def read_grey(path: Path) -> np.ndarray:
    """Pixels [height, width] of an 8-bit grayscale PNG without interlacing.

    Raises:
        ValueError: the PNG has another format.

    Source: PNG specification, second edition, sections 5 and 9.
    """
    return _read(path, 1)[..., 0]


def read_colour(path: Path) -> np.ndarray:
    """RGB pixels [height, width, 3] of an 8-bit PNG without interlacing.

    Raises:
        ValueError: the PNG has another format.

    Source: PNG specification, second edition, sections 5 and 9.
    """
    return _read(path, 3)


def _read(path: Path, channels: int) -> np.ndarray:
    data = path.read_bytes()
    width, height, *kind = struct.unpack_from(">IIBBBBB", data, 16)
    if kind != [8, _COLOUR_TYPES[channels], 0, 0, 0]:
        names = {1: "grey", 3: "colour"}
        raise ValueError(
            f"{path}: expected 8-bit {names[channels]} without interlacing, got {kind}"
        )
    size = width * channels
    lines = zlib.decompress(_image_data(data))
    rows = [[0] * (size + channels)]  # a border of 0 above and left
    for y in range(height):
        line = lines[y * (size + 1) : (y + 1) * (size + 1)]
        rows.append(_unfilter(line[0], line[1:], rows[-1], channels))
    pixels = np.array(rows, np.uint8).reshape(height + 1, width + 1, channels)
    return pixels[1:, 1:]


def _image_data(data: bytes) -> bytes:
    chunks, position = [], 8
    while position < len(data):
        size, name = struct.unpack_from(">I4s", data, position)
        if name == b"IDAT":
            chunks.append(data[position + 8 : position + 8 + size])
        position += size + 12
    return b"".join(chunks)


def _unfilter(kind: int, line: bytes, above: list[int], channels: int) -> list[int]:
    """Undo filter `kind`; the rows have a border pixel on the left."""
    row = [0] * channels
    for x, byte in enumerate(line):
        left, corner, up = row[x], above[x], above[x + channels]
        guesses = (0, left, up, (left + up) // 2, _paeth(left, up, corner))
        row.append((byte + guesses[kind]) % 256)
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
