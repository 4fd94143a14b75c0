"""The arrays of a module in a file beside its text, in the safetensors format.

Types that the format's own library does not read are bytes in it, and the file says in
its metadata what they are.

Source: https://huggingface.co/docs/safetensors, which covers bfloat16 and booleans.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

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
        found = load_file(path)
        types = _types(path)
        found |= {k: found[k].view(dtype(name).numpy) for k, name in types.items()}
    except _DAMAGE as error:
        raise IRError(f"{path}: not a safetensors file, or damaged: {error}") from error
    return {key: _booleans(a) if a.dtype == bool else a for key, a in found.items()}


_TYPE = "type of "  # before the key of an array, in the metadata
_DAMAGE = (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError)


def _types(path: str | os.PathLike[str]) -> dict[str, str]:
    """The types of arrays that are bytes in the file, by key."""
    with safe_open(path, "numpy") as file:
        said = file.metadata() or {}
    return {k.removeprefix(_TYPE): v for k, v in said.items() if k.startswith(_TYPE)}


def _booleans(array: np.ndarray) -> np.ndarray:
    """The array without bytes that are neither true nor false."""
    return array.view(np.uint8) != 0
