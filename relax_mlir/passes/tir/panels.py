"""Packing of matrix columns into panels (NR blocking), of constants at compile time."""

import numpy as np

__all__ = ["to_panels"]


def to_panels(array: np.ndarray, width: int) -> np.ndarray:
    """Packs [..., columns] into panels of ``width`` columns: [panels, ..., width], zero-padded."""
    *inner, columns = array.shape
    packed = np.zeros((-(-columns // width), *inner, width), array.dtype)
    for number, block in enumerate(packed):
        part = array[..., number * width : (number + 1) * width]
        block[..., : part.shape[-1]] = part
    return packed
