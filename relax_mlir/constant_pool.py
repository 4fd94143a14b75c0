"""The arrays of a module in a file beside its text, in the safetensors format.

Types that the format's own library does not read are bytes in it, and the file says in
its metadata what they are.

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
from relax_mlir.files import whole_file

__all__ = ["load_pool", "pool_path", "save_beside", "save_pool"]


def pool_path(text: str | os.PathLike[str]) -> Path:
    """Where the arrays of the module in the file ``text`` are.

    Raises:
        IRError: that would be the same file.
    """
    pool = Path(text).with_suffix(".safetensors")
    if pool == Path(text):
        raise IRError(f"{text}: the constants go there: expected another name")
    return pool


def save_beside(
    text: str | os.PathLike[str], constants: Mapping[str, np.ndarray]
) -> None:
    """Write the arrays of the module that goes to the file ``text``, if there are any.

    Nothing is put beside a pipe or a device.

    Raises:
        IRError, OSError: see :func:`pool_path` and :func:`save_pool`.
    """
    is_file = Path(text).is_file() or not Path(text).exists()
    if constants and is_file:
        save_pool(pool_path(text), constants)


def save_pool(
    path: str | os.PathLike[str], constants: Mapping[str, np.ndarray]
) -> None:
    """Write arrays by key, all or nothing.

    Raises:
        IRError: they cannot be written in this format.
        OSError: the file cannot be written.
    """
    arrays = {key: np.asarray(a, order="C") for key, a in constants.items()}
    narrow = {k: a for k, a in arrays.items() if from_numpy(a.dtype).is_narrow}
    arrays |= {key: a.view(np.uint8) for key, a in narrow.items()}
    types = {_TYPE + key: a.dtype.name for key, a in narrow.items()}
    with whole_file(path) as temporary:
        temporary.touch()  # tells what is wrong better than the library does
        mode = temporary.stat().st_mode
        try:
            save_file(arrays, temporary, types or None)
            temporary.chmod(mode)  # the library's file is the user's alone
        except SafetensorError as error:
            raise IRError(f"{path}: cannot be written: {error}") from error


def load_pool(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read arrays by key.

    Raises:
        IRError: there is no such file, or it is damaged.
    """
    if not Path(path).is_file():
        problem = "not a regular file" if Path(path).exists() else "no such file"
        raise IRError(f"{path}: {problem}: expected the module's constants")
    try:
        # Not mapped: a mapped file that is truncated meanwhile ends the process.
        data = Path(path).read_bytes()
        found = {name: _array(view) for name, view in deserialize(data)}
        types = _types(data)
        found |= {k: found[k].view(dtype(name).numpy) for k, name in types.items()}
    except _DAMAGE as error:
        raise IRError(f"{path}: not a safetensors file, or damaged: {error}") from error
    return {key: _booleans(a) if a.dtype == bool else a for key, a in found.items()}


_LENGTH_BYTES = 8  # of the header's length, which begins a file
_TYPE = "type of "  # before the key of an array, in the metadata
_DAMAGE = (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError)


_NAMES = {"BOOL": "bool", "BF16": "bfloat16"} | {
    f"{letter}{bits}": f"{kind}{bits}"
    for letter, kind in (("F", "float"), ("I", "int"), ("U", "uint"))
    for bits in (8, 16, 32, 64)
    if letter != "F" or bits > 8
}
"""Element types of ours, by the format's names."""


def _array(view: Mapping[str, Any]) -> np.ndarray:  # Any: as the library gives them
    """An array of a file.

    Raises:
        ValueError: its element type is none of ours.
    """
    if view["dtype"] not in _NAMES:
        raise ValueError(f"element type `{view['dtype']}` is not supported")
    flat = np.frombuffer(view["data"], dtype(_NAMES[view["dtype"]]).numpy)
    return flat.reshape(view["shape"])


def _types(data: bytes) -> dict[str, str]:
    """The types of arrays that are bytes in the file, by key; `load` has checked it."""
    header_bytes = int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + header_bytes])
    said = header.get("__metadata__", {})
    return {k.removeprefix(_TYPE): v for k, v in said.items() if k.startswith(_TYPE)}


def _booleans(array: np.ndarray) -> np.ndarray:
    """The array without bytes that are neither true nor false."""
    return array.view(np.uint8) != 0
