"""Rules for convolutions and transposed convolutions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.conv_transpose import (
    Conv1dTransposeOp,
    Conv2dTransposeOp,
    Conv3dTransposeOp,
)
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.im2col import Col2imOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.window_attributes import (
    check_convolution,
    check_window,
    kernel_sizes,
    onnx_window,
    select_by_rank,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.dequantized import dequantized_conv

_CONVS = (Conv1dOp, Conv2dOp, Conv3dOp)
_TRANSPOSES = (Conv1dTransposeOp, Conv2dTransposeOp, Conv3dTransposeOp)


@onnx_rule("Conv", since=1)
def conv(node: OnnxNode) -> ir.Value:
    """Convolution with an optional bias per channel.

    Source: ONNX Conv-22.
    """
    check_convolution(node)
    quantized = dequantized_conv(node)
    if quantized is not None:
        return _with_bias(node, quantized)
    weight = node.input(1)
    kernel = kernel_sizes(node, weight)
    x, attrs = onnx_window(node, node.input(0), kernel, fill=0.0)
    op = select_by_rank(_CONVS, len(kernel))
    y = op(x, weight, groups=node.attr("group", 1), **attrs).y
    return _with_bias(node, y)


@onnx_rule("ConvTranspose", since=1)
def conv_transpose(node: OnnxNode) -> ir.Value:
    """Transposed convolution with an optional bias per channel.

    Source: ONNX ConvTranspose-22.
    """
    check_convolution(node)
    x, weight = node.input(0), node.input(1)
    kernel = kernel_sizes(node, weight)
    check_window(node, len(kernel))
    ones = [1] * len(kernel)
    strides, dilations = node.attr("strides", ones), node.attr("dilations", ones)
    pads, output_padding = _transposed_pads(node, kernel, strides, dilations)
    op = select_by_rank(_TRANSPOSES, len(kernel))
    attrs = {
        "strides": strides,
        "padding": pads,
        "output_padding": output_padding,
        "dilation": dilations,
        "groups": node.attr("group", 1),
    }
    known = node.constants(weight)
    if known is not None and np.isfinite(known).all():
        return _with_bias(node, op(x, weight, **attrs).y)
    # The operator also multiplies the weight by the zeros that it inserts, so a NaN or an
    # infinity would spread; matmul and col2im do not.
    operands = (ir.RankedTensorType(v.type) for v in (x, weight))
    op.infer(*operands, **attrs)
    return _with_bias(node, _via_col2im(x, weight, attrs))


def _via_col2im(
    x: ir.Value, weight: ir.Value, attrs: Mapping[str, Any]
) -> ir.Value:  # Any: attributes by name
    """Transposed convolution as a matmul and a col2im.

    Args:
        x: [n, c, spatial...].
        weight: [c, channels per group, kernel...].
        attrs: attributes of the transposed convolution operator.
    """
    dtype = tensors.dtype_of(x)
    wide = [AstypeOp(v, dtype=wide_type(dtype)).y for v in (x, weight)]
    (batch, channels, *sizes), (_, out_group, *kernel) = map(
        tensors.shape_of, (x, weight)
    )
    groups, rank = attrs["groups"], len(kernel)
    in_group = shapes.floordiv(channels, groups)
    rows, points = shapes.product((out_group, *kernel)), shapes.product(sizes)
    matrix = ReshapeOp(wide[1], shape=(groups, in_group, rows)).y
    elements = ReshapeOp(wide[0], shape=(batch, groups, in_group, points)).y
    columns = MatmulOp(PermuteDimsOp(matrix, axes=(0, 2, 1)).y, elements).z
    strides, dilations = attrs["strides"], attrs["dilation"]
    whole = tuple(
        shapes.conv_transpose_output(*axis, (0, 0), 0)
        for axis in zip(sizes, kernel, strides, dilations, strict=True)
    )
    image = Col2imOp(
        ReshapeOp(columns, shape=(batch, groups * rows, points)).y,
        image_shape=whole,
        block_shape=kernel,
        strides=strides,
        dilations=dilations,
        padding=[],
    ).y
    pads, extra = attrs["padding"], attrs["output_padding"]
    before = [-pad for pad in pads[:rank]]
    after = [more - pad for more, pad in zip(extra, pads[rank:], strict=True)]
    if any((*before, *after)):
        widths = pad_widths((0, 0, *before, 0, 0, *after))
        image = PadOp(image, pad_width=widths).y
    return AstypeOp(image, dtype=dtype).y


def _with_bias(node: OnnxNode, y: ir.Value) -> ir.Value:
    """``y`` plus the bias, the optional third input, along the channels."""
    bias = node.optional(2)
    if bias is None:
        return y
    rank = len(tensors.shape_of(y))
    wide = ReshapeOp(bias, shape=(1, tensors.shape_of(y)[1], *[1] * (rank - 2))).y
    return AddOp(y, wide).z


def _transposed_pads(
    node: OnnxNode,
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """``pads`` and ``output_padding``, derived from ``output_shape`` or ``auto_pad`` if given.

    Raises:
        NotKnownError: the padding depends on a symbolic size.
    """
    rank = len(kernel)
    extra = list(node.attr("output_padding", [0] * rank))
    mode = node.attr("auto_pad", "NOTSET")
    sizes = tensors.shape_of(node.input(0))[2:]
    if len(sizes) != rank:
        got = len(tensors.shape_of(node.input(0)))
        raise ValueError(f"expected the weight's rank {rank + 2}, got {got}")
    if "output_shape" in node.attrs:
        wanted = list(node.attr("output_shape"))[-rank:]
        if len(wanted) != rank:
            raise ValueError(
                f"attribute `output_shape`: expected {rank} sizes, got {wanted}"
            )
    elif mode.startswith("SAME"):
        wanted = [dim * stride for dim, stride in zip(sizes, strides, strict=True)]
    else:
        zeros = [0] * (2 * rank)
        return list(zeros if mode == "VALID" else node.attr("pads", zeros)), extra
    before, after = [0] * rank, [0] * rank
    for axis in range(rank):
        whole = shapes.conv_transpose_output(
            sizes[axis],
            kernel[axis],
            strides[axis],
            dilations[axis],
            (0, 0),
            extra[axis],
        )
        total = whole - wanted[axis]
        if not isinstance(total, int):
            raise ValueNotKnownError(
                0,
                "padding depends on the output shape: expected known sizes, got "
                f"{shapes.format_shape(sizes)}",
                needs_shape_only=True,
            )
        less = max(0, total) // 2
        more = max(0, total) - less
        before[axis], after[axis] = (
            (less, more) if mode == "SAME_UPPER" else (more, less)
        )
        extra[axis] += max(0, -total)
    return before + after, extra
