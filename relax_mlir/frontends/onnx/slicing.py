"""Rules that cut tensors into parts."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.shapes import Dim, is_known_le

__all__ = ["crop", "part"]

_MANY_PARTS = 12  # of one tensor: from so many on, a kernel for each is too much code


@onnx_rule("Split", since=1)
def split(node: OnnxNode) -> list[ir.Value]:
    """Parts along one axis: of given sizes, or equal but for a smaller last one.

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
        results.append(_left(x, axis, before, rest))
        before = before + size
    return results


def _gathered_parts(
    node: OnnxNode, x: ir.Value, axis: int, sizes: Sequence[int]
) -> list[ir.Value]:
    """Many parts, gathered at constant indices: parts of one size share a kernel.

    A slice has its offset in its code, so that each part would compile a kernel.
    """
    ends = np.cumsum(sizes).tolist()
    return [
        TakeOp(x, node.constant(np.arange(end - size, end)), axis=axis).y
        for size, end in zip(sizes, ends, strict=True)
    ]


def _left(x: ir.Value, axis: int, before: Dim, after: Dim) -> ir.Value:
    """What is left along one axis."""
    rank = len(tensors.shape_of(x))
    pads: list[Dim] = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = -before, -after
    return crop(x, pads)


def part(x: ir.Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> ir.Value:
    """Every ``step``-th element from ``begin`` up to ``end`` along one axis."""
    bounds = {"begin": (begin,), "end": (end,), "strides": (step,)}
    return StridedSliceOp(x, axes=(axis,), **bounds).y


def crop(x: ir.Value, pads: Sequence[Dim]) -> ir.Value:
    """``x`` without its first and last elements along every axis, which it must have.

    A slice where it surely has them. A bound of a slice that might be negative would
    count from the end, so elsewhere it is a pad, which assumes that something is left.

    Args:
        x: what is cropped.
        pads: how many elements are added before every axis, then after: 0 or less.
    """
    shape = tensors.shape_of(x)
    begins = [-pad for pad in pads[: len(shape)]]
    ends = [dim + pad for dim, pad in zip(shape, pads[len(shape) :], strict=True)]
    bounds = zip(begins, ends, strict=True)
    if not all(is_known_le(0, b) and is_known_le(b, e) for b, e in bounds):
        return PadOp(x, pad_width=pad_widths(pads)).y
    axes = range(len(shape))
    return StridedSliceOp(x, axes=axes, begin=begins, end=ends).y
