"""Rules that use im2col or col2im: Col2Im and DeformConv."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.im2col import Col2imOp, DeformColumnsOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.window_attributes import check_convolution, kernel_sizes
from relax_mlir.frontends.onnx.node_form import input_shape


@onnx_rule("Col2Im", since=18)
def col2im(node: OnnxNode) -> ir.Value:
    """col2im: sums the blocks held in columns into an image.

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
    """Deformable convolution: im2col at learned offsets, then a matmul.

    Source: ONNX DeformConv-22.
    """
    check_convolution(node)
    x, weight, offset = (node.input(i) for i in range(3))
    channels, in_group, *_ = input_shape(node, 1, "m", "c", "kernel...")
    kernel = kernel_sizes(node, weight)
    group, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    shapes.unify(input_shape(node, 0, "n", "c", "spatial...")[1], in_group * group)
    shapes.require_multiple(channels, group, "results")
    batch, _, *windows = input_shape(node, 2, "n", "offsets", "windows...")
    mask = node.optional(4)
    if mask is None:
        one = node.constant(np.ones((), tensors.dtype_of(x).numpy))
        mask_channels = offset_groups * shapes.product(kernel)
        mask = BroadcastToOp(one, shape=(batch, mask_channels, *windows)).y
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
    k, points = shapes.product((in_group, *kernel)), shapes.product(windows)
    matrices = ReshapeOp(columns, shape=(batch, group, k, points)).y
    out_group = shapes.floordiv(channels, group)
    weights = ReshapeOp(weight, shape=(1, group, out_group, k)).y
    y = ReshapeOp(MatmulOp(weights, matrices).z, shape=(batch, channels, *windows)).y
    bias = node.optional(3)
    if bias is None:
        return y
    ones = [1] * len(windows)
    return AddOp(y, ReshapeOp(bias, shape=(channels, *ones)).y).z
