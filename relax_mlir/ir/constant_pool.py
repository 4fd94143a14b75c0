"""Constant pools: the arrays of a module in a safetensors file next to its text.

Element types that safetensors does not support are stored as bytes, and named in the
file's metadata.

Source: https://huggingface.co/docs/safetensors, which covers bfloat16 and booleans.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save_file

from relax_mlir.dialects.dtypes import dtype, from_numpy
from relax_mlir.errors import IRError
from relax_mlir.support.files import atomic_file

__all__ = ["load_pool", "pool_path", "save_beside", "save_pool"]


def pool_path(text: str | os.PathLike[str]) -> Path:
    """The path of the constant pool of the module in the file ``text``.

    Raises:
        IRError: it would be the same file.
    """
    pool = Path(text).with_suffix(".safetensors")
    if pool == Path(text):
        raise IRError(
            f"{text}: this is the name of the constant pool: expected another name"
        )
    return pool


def save_beside(
    text: str | os.PathLike[str], constants: Mapping[str, np.ndarray]
) -> None:
    """Saves the arrays of the module in the file ``text``, if there are any.

    Pipes and devices get no constant pool.

    Raises:
        IRError, OSError: see :func:`pool_path` and :func:`save_pool`.
    """
    is_file = Path(text).is_file() or not Path(text).exists()
    if constants and is_file:
        save_pool(pool_path(text), constants)


def save_pool(
    path: str | os.PathLike[str], constants: Mapping[str, np.ndarray]
) -> None:
    """Saves arrays by key, atomically.

    Raises:
        IRError: the format does not support them.
        OSError: the file cannot be written.
    """
    arrays = {key: np.asarray(a, order="C") for key, a in constants.items()}
    narrow = {k: a for k, a in arrays.items() if from_numpy(a.dtype).is_narrow}
    arrays |= {key: a.view(np.uint8) for key, a in narrow.items()}
    types = {_TYPE + key: a.dtype.name for key, a in narrow.items()}
    with atomic_file(path) as temporary:
        temporary.touch()  # its errors are better than the library's
        mode = temporary.stat().st_mode
        try:
            save_file(arrays, temporary, types or None)
            temporary.chmod(
                mode
            )  # the library creates a file that only the user may read
        except SafetensorError as error:
            raise IRError(f"{path}: cannot be written: {error}") from error


def load_pool(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Loads arrays by key.

    Raises:
        IRError: there is no such file, or it is damaged.
    """
    if not Path(path).is_file():
        problem = "not a regular file" if Path(path).exists() else "no such file"
        raise IRError(f"{path}: {problem}: expected the module's constants")
    try:
        # Not memory-mapped: truncation of a mapped file crashes the process.
        data = Path(path).read_bytes()
        found = {name: _array(view) for name, view in deserialize(data)}
        types = _types(data)
        found |= {k: found[k].view(dtype(name).numpy) for k, name in types.items()}
    except _DAMAGE as error:
        raise IRError(f"{path}: not a safetensors file, or damaged: {error}") from error
    return {key: _booleans(a) if a.dtype == bool else a for key, a in found.items()}


_LENGTH_BYTES = 8  # of the header's length, at the start of a file
_TYPE = "type of "  # prefix of an array's key in the metadata
_DAMAGE = (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError)


_NAMES = {"BOOL": "bool", "BF16": "bfloat16"} | {
    f"{letter}{bits}": f"{kind}{bits}"
    for letter, kind in (("F", "float"), ("I", "int"), ("U", "uint"))
    for bits in (8, 16, 32, 64)
    if letter != "F" or bits > 8
}
"""Our element types, by safetensors name."""


def _array(view: Mapping[str, Any]) -> np.ndarray:  # Any: the library's values
    """An array of a file.

    Raises:
        ValueError: its element type is not supported.
    """
    if view["dtype"] not in _NAMES:
        raise ValueError(f"element type `{view['dtype']}` is not supported")
    flat = np.frombuffer(view["data"], dtype(_NAMES[view["dtype"]]).numpy)
    return flat.reshape(view["shape"])


def _types(data: bytes) -> dict[str, str]:
    """The types of arrays that are stored as bytes, by key; `deserialize` has verified the header."""
    header_bytes = int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + header_bytes])
    metadata = header.get("__metadata__", {})
    return {
        k.removeprefix(_TYPE): v for k, v in metadata.items() if k.startswith(_TYPE)
    }


def _booleans(array: np.ndarray) -> np.ndarray:
    """The array with bytes other than 0 and 1 normalised to true."""
    return array.view(np.uint8) != 0
