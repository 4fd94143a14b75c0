"""Rules that cut pictures into regions and blocks, and put them together again."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.columns import Col2imOp, DeformColumnsOp
from relax_mlir.dialects.relax.creation import ZerosOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.regions import MaxRoiPoolOp, RoiAlignOp
from relax_mlir.dialects.relax.scatter import ScatterElementsOp
from relax_mlir.dialects.shapes import Dim

_INT64 = dtypes.dtype("int64")


@onnx_rule("RoiAlign", since=10)
def roi_align_unshifted(node: OnnxNode) -> ir.Value:
    """Regions by points between pixels, whose corners are at whole coordinates.

    Source: ONNX RoiAlign-10.
    """
    return _roi_align(node, is_shifted=False)


@onnx_rule("RoiAlign", since=16)
def roi_align(node: OnnxNode) -> ir.Value:
    """Regions by points between pixels.

    Source: ONNX RoiAlign-22.
    """
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise ValueError(
            "bad coordinate_transformation_mode: expected half_pixel or "
            f"output_half_pixel, got {mode!r}"
        )
    return _roi_align(node, is_shifted=mode == "half_pixel")


def _roi_align(node: OnnxNode, *, is_shifted: bool) -> ir.Value:
    return RoiAlignOp(
        *(node.input(i) for i in range(3)),
        size=(node.attr("output_height", 1), node.attr("output_width", 1)),
        scale=node.attr("spatial_scale", 1.0),
        points=node.attr("sampling_ratio", 0),
        is_shifted=is_shifted,
        mode=node.attr("mode", "avg"),
    ).y


@onnx_rule("MaxRoiPool", since=1)
def max_roi_pool(node: OnnxNode) -> ir.Value:
    """The largest pixels of parts of regions.

    Source: ONNX MaxRoiPool-22.
    """
    return MaxRoiPoolOp(
        node.input(0),
        node.input(1),
        size=node.attr("pooled_shape"),
        scale=node.attr("spatial_scale", 1.0),
    ).y


@onnx_rule("Col2Im", since=18)
def col2im(node: OnnxNode) -> ir.Value:
    """Pictures from the columns that their blocks are.

    Source: ONNX Col2Im-18.
    """
    block = node.known(2).tolist()
    return Col2imOp(
        node.input(0),
        image_shape=node.dims(1),
        block_shape=block,
        strides=node.attr("strides", []),
        dilations=node.attr("dilations", []),
        padding=node.attr("pads", []),
    ).y


@onnx_rule("DeformConv", since=19)
def deform_conv(node: OnnxNode) -> ir.Value:
    """A convolution whose windows read at places that are moved by data.

    Source: ONNX DeformConv-22.
    """
    x, weight, offset = (node.input(i) for i in range(3))
    channels, in_group, *kernel = tensors.shape_of(weight)
    group, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    shapes.unify(tensors.shape_of(x)[1], in_group * group)
    if shapes.is_known_unequal(shapes.mod(channels, group), 0):
        raise ValueError(f"expected a multiple of {group} results, got {channels}")
    batch, _, *windows = tensors.shape_of(offset)
    mask = node.optional(4)
    if mask is None:
        one = node.constant(np.ones((), tensors.dtype_of(x).numpy))
        fields = offset_groups * shapes.product(kernel)
        mask = BroadcastToOp(one, shape=(batch, fields, *windows)).y
    columns = DeformColumnsOp(
        x,
        offset,
        mask,
        kernel=kernel,
        strides=node.attr("strides", []),
        padding=node.attr("pads", []),
        dilations=node.attr("dilations", []),
        groups=offset_groups,
    ).y
    rows, places = shapes.product((in_group, *kernel)), shapes.product(windows)
    matrices = ReshapeOp(columns, shape=(batch, group, rows, places)).y
    own = shapes.floordiv(channels, group)
    weights = ReshapeOp(weight, shape=(1, group, own, rows)).y
    y = ReshapeOp(MatmulOp(weights, matrices).z, shape=(batch, channels, *windows)).y
    bias = node.optional(3)
    if bias is None:
        return y
    ones = [1] * len(windows)
    return AddOp(y, ReshapeOp(bias, shape=(channels, *ones)).y).z


@onnx_rule("MaxUnpool", since=9)
def max_unpool(node: OnnxNode) -> ir.Value:
    """Maxima of windows where they were, and zeros elsewhere.

    Source: ONNX MaxUnpool-22. Places are in the tensor that the windows tell; a larger
    ``output_shape`` adds zeros.
    """
    x, places = node.input(0), AstypeOp(node.input(1), dtype=_INT64).y
    shape = tensors.shape_of(x)
    whole = _unpooled(node, shape)
    count = (shapes.product(shape),)
    zeros = ZerosOp(shape=(shapes.product(whole),), dtype=tensors.dtype_of(x)).y
    flat = ScatterElementsOp(
        zeros, ReshapeOp(places, shape=count).y, ReshapeOp(x, shape=count).y, axis=0
    ).y
    y = ReshapeOp(flat, shape=whole).y
    if node.optional(2) is None:
        return y
    wanted = node.dims(2)
    if len(wanted) != len(shape):
        raise ValueError(
            f"output_shape: expected {len(shape)} sizes, got {len(wanted)}"
        )
    widths = [w for old, new in zip(whole, wanted, strict=True) for w in (0, new - old)]
    return PadOp(y, pad_width=widths).y


def _unpooled(node: OnnxNode, shape: Sequence[Dim]) -> list[Dim]:
    """The shape that was pooled, of the smallest sizes that fit."""
    batch, channels, *sizes = shape
    kernel = node.attr("kernel_shape")
    rank = len(sizes)
    strides = node.attr("strides", [1] * rank)
    pads = node.attr("pads", [0] * (2 * rank))
    if not len(kernel) == len(strides) == len(pads) // 2 == rank:
        raise ValueError(
            f"expected kernel_shape, strides and pads for {rank} axes, got "
            f"{kernel}, {strides} and {pads}"
        )
    found = [
        (size - 1) * strides[a] - pads[a] - pads[rank + a] + kernel[a]
        for a, size in enumerate(sizes)
    ]
    return [batch, channels, *found]
