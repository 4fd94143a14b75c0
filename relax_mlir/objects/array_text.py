"""Base64 encoding of arrays in JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["decode_array", "encode_array"]


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """An array as a JSON object."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def decode_array(entry: Mapping[str, Any]) -> np.ndarray:
    """The array of a JSON object of :func:`encode_array`."""
    dtype = np.dtype(getattr(ml_dtypes, entry["dtype"], None) or entry["dtype"])
    data = np.frombuffer(base64.b64decode(entry["data"]), dtype)
    return data.reshape(entry["shape"]).copy()
