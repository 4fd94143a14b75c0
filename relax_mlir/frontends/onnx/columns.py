"""Rules that go through the columns that windows of pictures are."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.columns import Col2imOp, DeformColumnsOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.windows import check_convolution, kernel_sizes
from relax_mlir.frontends.onnx.node_form import input_shape


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
