"""Rule for Split, and helpers that slice and crop."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.shapes import Dim, is_known_le

__all__ = ["crop", "slice_axis"]

_MANY_PARTS = 12  # from this number on, a kernel for each part is too much code


@onnx_rule("Split", since=1)
def split(node: OnnxNode) -> list[ir.Value]:
    """Split along one axis into given sizes, or into equal ones and a smaller last one.

    Source: ONNX Split-18.
    """
    x = node.input(0)
    shape = tensors.shape_of(x)
    axis = shapes.check_axis(node.attr("axis", 0), len(shape))
    count = len(node.wanted)
    if node.attrs.get("num_outputs", count) != count:
        raise ValueError(
            f"attribute `num_outputs`: expected {count}, one for each output, got "
            f"{node.attrs['num_outputs']}"
        )
    parts: int | Sequence[Dim] = node.attr("split", count)
    if node.optional(1) is not None:
        parts = node.dims(1)
    if not isinstance(parts, int) and len(parts) != count:
        raise ValueError(
            f"split: expected {count} sizes, one for each output, got {len(parts)}"
        )
    sizes = shapes.split_sizes(shape[axis], parts)
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes) >= _MANY_PARTS:
        return _gathered_parts(node, x, axis, known)
    rest: Dim = sum(sizes, 0)
    before: Dim = 0
    results: list[ir.Value] = []
    for size in sizes:
        rest = rest - size
        results.append(_cropped_along(x, axis, before, rest))
        before = before + size
    return results


def _gathered_parts(
    node: OnnxNode, x: ir.Value, axis: int, sizes: Sequence[int]
) -> list[ir.Value]:
    """A split as gathers at constant indices, so that parts of one size share a kernel.

    The offset of a slice is a constant of its kernel, so each part would have its own.
    """
    ends = np.cumsum(sizes).tolist()
    return [
        TakeOp(x, node.constant(np.arange(end - size, end)), axis=axis).y
        for size, end in zip(sizes, ends, strict=True)
    ]


def _cropped_along(x: ir.Value, axis: int, before: Dim, after: Dim) -> ir.Value:
    """``x`` cropped along one axis."""
    rank = len(tensors.shape_of(x))
    pads: list[Dim] = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = -before, -after
    return crop(x, pads)


def slice_axis(x: ir.Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> ir.Value:
    """Slice along one axis: ``begin`` to ``end``, exclusive, with a step."""
    bounds = {"begin": (begin,), "end": (end,), "strides": (step,)}
    return StridedSliceOp(x, axes=(axis,), **bounds).y


def crop(x: ir.Value, pads: Sequence[Dim]) -> ir.Value:
    """``x`` without elements at the start and end of each axis.

    This is a slice if its bounds are known to be in range. A negative bound of a slice
    would count from the end, so otherwise it is a pad, which assumes a nonempty result.

    Args:
        x: the tensor.
        pads: elements to add before each axis, then after each: 0 or less.
    """
    shape = tensors.shape_of(x)
    begins = [-pad for pad in pads[: len(shape)]]
    ends = [dim + pad for dim, pad in zip(shape, pads[len(shape) :], strict=True)]
    bounds = zip(begins, ends, strict=True)
    if not all(is_known_le(0, b) and is_known_le(b, e) for b, e in bounds):
        return PadOp(x, pad_width=pad_widths(pads)).y
    axes = range(len(shape))
    return StridedSliceOp(x, axes=axes, begin=begins, end=ends).y
