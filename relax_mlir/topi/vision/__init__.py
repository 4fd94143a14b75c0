"""Operators on regions of pictures."""

from relax_mlir.topi.vision.regions import roi_align, roi_pool

__all__ = ["roi_align", "roi_pool"]
