"""Operators that give as many elements as they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.runtime.registry import from_ffi, get_global_func
from relax_mlir.stages.host_node import HostNode

__all__ = ["RUNNERS"]


def nonzero(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The places of elements that are not 0.

    Source: ONNX NonZero-13.
    """
    return [get_global_func("relax_mlir.nonzero")(node.value(values, 0))]


def compress(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The slices along an axis, or elements, where a condition holds.

    Source: ONNX Compress-11.
    """
    x, condition = node.value(values, 0), node.value(values, 1)
    found = get_global_func("relax_mlir.compress")
    return [found(x, condition, node.attrs.get("axis"))]


def unique(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The different slices along an axis, or elements.

    Source: ONNX Unique-11.
    """
    axis, is_sorted = node.attrs.get("axis"), node.flag("sorted", default=True)
    found = get_global_func("relax_mlir.unique")
    return list(map(from_ffi, found(node.value(values, 0), axis, is_sorted)))


def non_max_suppression(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The boxes that overlap with none of a higher score.

    Source: ONNX NonMaxSuppression-11.
    """
    boxes, scores = node.value(values, 0), node.value(values, 1)
    most, overlap, least = (node.scalar(values, i) for i in range(2, 5))
    is_centre = node.flag("center_point_box", default=False)
    found = get_global_func("relax_mlir.non_max_suppression")
    return [found(boxes, scores, most or 0, overlap or 0.0, least, is_centre)]


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": nonzero,
    "Unique": unique,
}
