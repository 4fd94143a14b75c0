"""Host kernels of operators with data-dependent output shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.runtime.registry import from_ffi, get_global_func

__all__ = ["RUNNERS"]


def nonzero(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Indices of the non-zero elements.

    Source: ONNX NonZero-13.
    """
    return [get_global_func("relax_mlir.nonzero")(node.value(values, 0))]


def compress(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Slices along an axis, or elements, that a boolean mask selects.

    Source: ONNX Compress-11.
    """
    x, condition = node.value(values, 0), node.value(values, 1)
    kernel = get_global_func("relax_mlir.compress")
    return [kernel(x, condition, node.attrs.get("axis"))]


def unique(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Unique slices along an axis, or unique elements.

    Source: ONNX Unique-11.
    """
    axis, is_sorted = node.attrs.get("axis"), node.flag("sorted", default=True)
    kernel = get_global_func("relax_mlir.unique")
    return list(map(from_ffi, kernel(node.value(values, 0), axis, is_sorted)))


def non_max_suppression(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Non-maximum suppression: boxes without large overlap with one of a higher score.

    Source: ONNX NonMaxSuppression-11.
    """
    boxes, scores = node.value(values, 0), node.value(values, 1)
    max_boxes, iou, min_score = (node.scalar(values, i) for i in range(2, 5))
    is_centre = node.flag("center_point_box", default=False)
    kernel = get_global_func("relax_mlir.non_max_suppression")
    return [kernel(boxes, scores, max_boxes or 0, iou or 0.0, min_score, is_centre)]


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": nonzero,
    "Unique": unique,
}
