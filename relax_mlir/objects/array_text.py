"""Arrays as parts of JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["read_array", "written_array"]


def written_array(array: np.ndarray) -> dict[str, Any]:
    """An array as what JSON can hold."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def read_array(entry: Mapping[str, Any]) -> np.ndarray:
    """The array that :func:`written_array` wrote."""
    dtype = np.dtype(getattr(ml_dtypes, entry["dtype"], None) or entry["dtype"])
    data = np.frombuffer(base64.b64decode(entry["data"]), dtype)
    return data.reshape(entry["shape"]).copy()
