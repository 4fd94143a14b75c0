"""Element types by name, with or without ml_dtypes.

Does not import the compiler: model files for GPUs bundle this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module

import numpy as np

__all__ = [
    "as_floats",
    "dlpack_numbers",
    "dlpack_type",
    "element_name",
    "element_type",
    "is_narrow",
    "random_elements",
]

_PLAIN = frozenset(
    [
        "bool",
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ]
)
_OTHER = re.compile(r"u?int[24]|bfloat16|float([468])_[a-z0-9]+")

# DLDataTypeCode by name.
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_CODES |= {
    f"float8_{kind}": 7 + number
    for number, kind in enumerate(
        [
            "e3m4",
            "e4m3",
            "e4m3b11fnuz",
            "e4m3fn",
            "e4m3fnuz",
            "e5m2",
            "e5m2fnuz",
            "e8m0fnu",
        ]
    )
}
_NAMES = {code: name for name, code in _CODES.items()}


@lru_cache(maxsize=64)
def element_type(name: str) -> np.dtype:
    """The numpy type of an element type; without ml_dtypes, an integer of the same size.

    Raises:
        ValueError: the name is unknown.
    """
    if name in _PLAIN:
        return np.dtype(name)
    if not _OTHER.fullmatch(name):
        raise ValueError(f"unknown element type `{name}`")
    try:
        narrow = getattr(import_module("ml_dtypes"), name, None)
    except ImportError:  # machines that only run models may lack it
        return np.dtype(np.uint16 if name == "bfloat16" else np.uint8)
    if narrow is None:
        raise ValueError(f"unknown element type `{name}`")
    return np.dtype(narrow)


def is_narrow(name: str) -> bool:
    """Whether an element type is one of ml_dtypes, which numpy lacks."""
    return name not in _PLAIN and _OTHER.fullmatch(name) is not None


def dlpack_type(name: str) -> tuple[int, int]:
    """DLPack's code and bits of an element type.

    Raises:
        BufferError: DLPack does not have the type.
    """
    # DLPack packs sub-byte types; here each element has a byte.
    if name.endswith(("int2", "int4")):
        raise BufferError(f"element type `{name}` is not in DLPack")
    return dlpack_numbers(name)


def dlpack_numbers(name: str) -> tuple[int, int]:
    """As :func:`dlpack_type`, also of types with fewer than 8 bits, which have a byte each."""
    kind = name if name in _CODES else name.rstrip("0123456789")
    if kind not in _CODES:
        raise BufferError(f"element type `{name}` is not in DLPack")
    digits = name[len(kind) :]
    return _CODES[kind], int(digits) if digits else 8 * element_type(name).itemsize


def element_name(code: int, bits: int) -> str:
    """The name of a DLPack element type; a description for unknown ones."""
    kind = _NAMES.get(code, f"type {code} of ")
    return kind if kind == "bool" or "_" in kind else f"{kind}{bits}"


def random_elements(
    rng: np.random.Generator, shape: Sequence[int], name: str
) -> np.ndarray:
    """Normally distributed floats, or integers 0 and 1, which are valid as indices.

    Raises:
        ValueError: the type needs ml_dtypes.
    """
    kind = element_type(name)
    if "float" not in name:
        return rng.integers(0, 2, shape).astype(kind)
    values = rng.standard_normal(shape)
    if kind.kind != "u":
        return values.astype(kind)
    if name != "bfloat16":
        raise ValueError(f"element type `{name}` needs the package ml_dtypes")
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(
        np.uint16
    )  # rounds to nearest even


def as_floats(array: np.ndarray, name: str) -> np.ndarray:
    """Elements converted to a native float type of numpy, with or without ml_dtypes."""
    if name == "bfloat16" and array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
