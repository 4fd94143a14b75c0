"""Arrays whose last axis is cut into blocks."""

import numpy as np

__all__ = ["in_blocks"]


def in_blocks(array: np.ndarray, width: int) -> np.ndarray:
    """[..., columns] as [blocks, ..., width]; zeros fill up the last block."""
    *inner, columns = array.shape
    packed = np.zeros((-(-columns // width), *inner, width), array.dtype)
    for number, block in enumerate(packed):
        part = array[..., number * width : (number + 1) * width]
        block[..., : part.shape[-1]] = part
    return packed
