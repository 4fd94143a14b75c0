"""Rules for data movement: Identity, Flatten, Squeeze, Unsqueeze, depth and space."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.squeeze import axes_to_squeeze
from relax_mlir.frontends.onnx.node_form import input_shape
from relax_mlir.frontends.onnx.scores import check_choice

_MODES = ("DCR", "CRD")  # depth-column-row or column-row-depth order of channels


@onnx_rule("Identity", since=1)
def identity(node: OnnxNode) -> ir.Value:
    """The input itself."""
    return node.input(0)


@onnx_rule("Flatten", since=1)
def flatten(node: OnnxNode) -> ir.Value:
    """Reshape to a matrix: axes before ``axis`` become rows, the others columns.

    Source: ONNX Flatten-13.
    """
    x = node.input(0)
    dims = tensors.shape_of(x)
    axis = node.attr("axis", 1)
    if axis != len(dims):
        axis = shapes.check_axis(axis, len(dims))
    matrix = [shapes.product(dims[:axis]), shapes.product(dims[axis:])]
    return ReshapeOp(x, shape=matrix).y


def _squeezed(x: ir.Value, axes: Sequence[int] | None) -> ir.Value:
    """``x`` without the given axes, which may repeat, or without all unit axes."""
    dims = tensors.shape_of(x)
    axes = shapes.distinct_axes(axes, len(dims)) if axes else None
    for axis in axes or ():
        shapes.unify(1, dims[axis])
    try:
        gone = axes_to_squeeze(dims, axes)
    except ValueError as error:
        if axes is not None:
            raise
        raise ValueNotKnownError(
            0, f"squeeze: {error}", needs_shape_only=True
        ) from error
    kept = [dim for axis, dim in enumerate(dims) if axis not in gone]
    return ReshapeOp(x, shape=kept).y


@onnx_rule("Squeeze", since=1)
def squeeze_attribute(node: OnnxNode) -> ir.Value:
    """Removal of unit axes given by an attribute.

    Source: ONNX Squeeze-11.
    """
    return _squeezed(node.input(0), node.attrs.get("axes"))


@onnx_rule("Squeeze", since=13)
def squeeze(node: OnnxNode) -> ir.Value:
    """Removal of unit axes given by an input.

    Source: ONNX Squeeze-21.
    """
    return _squeezed(node.input(0), _axes(node) if len(node.inputs) > 1 else None)


def _axes(node: OnnxNode) -> list[int]:
    return [int(axis) for axis in node.vector(1)]


def _unsqueezed(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    dims = list(tensors.shape_of(x))
    for axis in sorted(shapes.normalize_axes(axes, len(dims) + len(axes))):
        dims.insert(axis, 1)
    return ReshapeOp(x, shape=dims).y


@onnx_rule("Unsqueeze", since=1)
def unsqueeze_attribute(node: OnnxNode) -> ir.Value:
    """Insertion of unit axes at positions given by an attribute.

    Source: ONNX Unsqueeze-11.
    """
    return _unsqueezed(node.input(0), node.attr("axes"))


@onnx_rule("Unsqueeze", since=13)
def unsqueeze(node: OnnxNode) -> ir.Value:
    """Insertion of unit axes at positions given by an input.

    Source: ONNX Unsqueeze-21.
    """
    return _unsqueezed(node.input(0), _axes(node))


@onnx_rule("DepthToSpace", since=1)
def depth_to_space(node: OnnxNode) -> ir.Value:
    """Rearranges blocks of channels into blocks of pixels (pixel shuffle).

    Source: ONNX DepthToSpace-13.
    """
    x, block = node.input(0), node.attr("blocksize")
    n, c, h, w = input_shape(node, 0, "n", "c", "h", "w")
    depth = shapes.floordiv(c, block * block)
    if check_choice("mode", node.attr("mode", "DCR"), _MODES) == "DCR":
        split, order = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    y = PermuteDimsOp(ReshapeOp(x, shape=split).y, axes=order).y
    return ReshapeOp(y, shape=(n, depth, h * block, w * block)).y


@onnx_rule("SpaceToDepth", since=1)
def space_to_depth(node: OnnxNode) -> ir.Value:
    """Rearranges blocks of pixels into blocks of channels.

    Source: ONNX SpaceToDepth-13.
    """
    x, block = node.input(0), node.attr("blocksize")
    n, c, h, w = input_shape(node, 0, "n", "c", "h", "w")
    height, width = (shapes.floordiv(size, block) for size in (h, w))
    split = ReshapeOp(x, shape=(n, c, height, block, width, block)).y
    is_depth_last = check_choice("mode", node.attr("mode", "DCR"), _MODES) == "DCR"
    order = (0, 3, 5, 1, 2, 4) if is_depth_last else (0, 1, 3, 5, 2, 4)
    y = PermuteDimsOp(split, axes=order).y
    return ReshapeOp(y, shape=(n, c * block * block, height, width)).y
