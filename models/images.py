"""Synthetic input images for image classifiers."""

import numpy as np


def synthetic_images(seed: int, batch: int, size: int = 224) -> np.ndarray:
    """Smooth random color fields [batch, 3, size, size] with some noise.

    All white noise looks alike to filters, so different inputs would give nearly equal
    logits. Mean 0 and variance 1, like a normalized photograph.
    """
    rng = np.random.default_rng(seed)
    coarse = rng.standard_normal((batch, 3, 8, 8), np.float32)
    blocks = coarse.repeat(-(-size // 8), 2).repeat(-(-size // 8), 3)[..., :size, :size]
    image = blocks + 0.3 * rng.standard_normal(blocks.shape, np.float32)
    image -= image.mean((1, 2, 3), keepdims=True)
    return image / image.std((1, 2, 3), keepdims=True)
