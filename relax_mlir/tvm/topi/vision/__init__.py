"""Object detection operators: bounding boxes, non-maximum suppression, RoI pooling."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.topi.vision.boxes import get_valid_counts, multibox_transform_loc
from relax_mlir.tvm.topi.vision.classes import all_class_non_max_suppression
from relax_mlir.tvm.topi.vision.regions import roi_align, roi_pool
from relax_mlir.tvm.topi.vision.suppression import non_max_suppression

__all__ = [
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_transform_loc",
    "non_max_suppression",
    "roi_align",
    "roi_pool",
]

check_exports(globals())
