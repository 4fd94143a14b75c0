"""Synthetic pictures for the networks that classify them."""

import numpy as np


def pictures(seed: int, batch: int, size: int = 224) -> np.ndarray:
    """Smooth seeded colour fields [batch, 3, size, size] with a little noise.

    White noise would look alike to every filter, so that two inputs gave nearly the
    same logits. Mean 0 and mean square 1, like a normalised photograph.
    """
    rng = np.random.default_rng(seed)
    coarse = rng.standard_normal((batch, 3, 8, 8), np.float32)
    blocks = coarse.repeat(-(-size // 8), 2).repeat(-(-size // 8), 3)[..., :size, :size]
    image = blocks + 0.3 * rng.standard_normal(blocks.shape, np.float32)
    image -= image.mean((1, 2, 3), keepdims=True)
    return image / image.std((1, 2, 3), keepdims=True)
