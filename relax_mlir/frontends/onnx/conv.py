"""Rules for convolutions and their bias."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import NotKnownError, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.conv_transpose import (
    Conv1dTransposeOp,
    Conv2dTransposeOp,
    Conv3dTransposeOp,
)
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.windows import by_rank, kernel_sizes, onnx_window
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.dequantized import dequantized_conv

_CONVS = (Conv1dOp, Conv2dOp, Conv3dOp)
_TRANSPOSES = (Conv1dTransposeOp, Conv2dTransposeOp, Conv3dTransposeOp)


@onnx_rule("Conv", since=1)
def conv(node: OnnxNode) -> ir.Value:
    """A convolution, plus a bias per channel if there is one.

    Source: ONNX Conv-22.
    """
    of_integers = dequantized_conv(node)
    if of_integers is not None:
        return _with_bias(node, of_integers)
    weight = node.input(1)
    kernel = kernel_sizes(node, weight)
    x, attrs = onnx_window(node, node.input(0), kernel, fill=0.0)
    op = by_rank(_CONVS, len(kernel))
    y = op(x, weight, groups=node.attr("group", 1), **attrs).y
    return _with_bias(node, y)


@onnx_rule("ConvTranspose", since=1)
def conv_transpose(node: OnnxNode) -> ir.Value:
    """A transposed convolution, plus a bias per channel if there is one.

    Source: ONNX ConvTranspose-22.
    """
    x, weight = node.input(0), node.input(1)
    kernel = kernel_sizes(node, weight)
    ones = [1] * len(kernel)
    strides, dilations = node.attr("strides", ones), node.attr("dilations", ones)
    pads, output_padding = _transposed_pads(node, kernel, strides, dilations)
    op = by_rank(_TRANSPOSES, len(kernel))
    y = op(
        x,
        weight,
        strides=strides,
        padding=pads,
        output_padding=output_padding,
        dilation=dilations,
        groups=node.attr("group", 1),
    ).y
    return _with_bias(node, y)


def _with_bias(node: OnnxNode, y: ir.Value) -> ir.Value:
    """``y``, plus the third input along the channels if there is one."""
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
    """``pads`` and ``output_padding``, from ``output_shape`` or ``auto_pad`` if given.

    Raises:
        NotKnownError: they depend on a symbolic size.
    """
    rank = len(kernel)
    extra = list(node.attr("output_padding", [0] * rank))
    mode = node.attr("auto_pad", "NOTSET")
    sizes = tensors.shape_of(node.input(0))[2:]
    if "output_shape" in node.attrs:
        asked = list(node.attr("output_shape"))[-rank:]
    elif mode.startswith("SAME"):
        asked = [dim * stride for dim, stride in zip(sizes, strides, strict=True)]
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
        total = whole - asked[axis]
        if not isinstance(total, int):
            raise NotKnownError(
                0,
                "is padded by its result: expected known sizes, got "
                f"{shapes.format_shape(sizes)}",
                is_of_sizes=True,
            )
        less = max(0, total) // 2
        more = max(0, total) - less
        before[axis], after[axis] = (
            (less, more) if mode == "SAME_UPPER" else (more, less)
        )
        extra[axis] += max(0, -total)
    return before + after, extra
