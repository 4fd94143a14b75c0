"""Rules for rotary position embeddings (RoPE)."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, UseFunctionBodyError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.concat_split import ConcatOp, StackOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.heads import split_heads
from relax_mlir.frontends.onnx.indices import checked_indices
from relax_mlir.frontends.onnx.node_form import (
    check_inputs_and_attributes,
    input_shape,
    known_size,
    require_input_shape,
)
from relax_mlir.frontends.onnx.scores import scalar_like
from relax_mlir.frontends.onnx.slicing import slice_axis
from relax_mlir.symbolic.bounds import is_known_le

__all__ = ["apply_rotary"]


def apply_rotary(
    x: ir.Value, positions: ir.Value, cos: ir.Value, sin: ir.Value, is_interleaved: bool
) -> ir.Value:
    """Rotary position embedding: rotates pairs of features by position-dependent angles.

    Args:
        x: [batch, heads, sequence, size].
        positions: [batch, sequence] or [1, sequence].
        cos, sin: [positions, half]; features after the first 2 * half are unchanged.
        is_interleaved: whether adjacent features form pairs; else those of the two halves.

    Raises:
        ValueError: there are more angles than pairs, or a size is symbolic.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
    """
    batch, heads, length, size = tensors.shape_of(x)
    half = tensors.shape_of(cos)[-1]
    if not isinstance(half, int) or not isinstance(size, int) or 2 * half > size:
        raise ValueError(f"expected angles for {size} elements or fewer, got {half}")
    rows = [TakeOp(table, positions, axis=0).y for table in (cos, sin)]
    shape = (tensors.shape_of(positions)[0], 1, length, half)
    c, s = (ReshapeOp(row, shape=shape).y for row in rows)
    ends = (
        ((0, 2 * half, 2), (1, 2 * half, 2))
        if is_interleaved
        else ((0, half), (half, 2 * half))
    )
    a, b = (slice_axis(x, 3, *bounds) for bounds in ends)
    first = SubtractOp(MultiplyOp(a, c).z, MultiplyOp(b, s).z).z
    second = AddOp(MultiplyOp(a, s).z, MultiplyOp(b, c).z).z
    if is_interleaved:
        pairs = StackOp([first, second], axis=4).y
        y = ReshapeOp(pairs, shape=(batch, heads, length, 2 * half)).y
    else:
        y = ConcatOp([first, second], axis=3).y
    if 2 * half == size:
        return y
    return ConcatOp([y, slice_axis(x, 3, 2 * half, size)], axis=3).y


@onnx_rule("RotaryEmbedding", since=23)
def standard_rotary_embedding(node: OnnxNode) -> ir.Value:
    """Rotary position embedding by the standard's function body, with stricter checks.

    The body would broadcast or truncate position ids, cosines and sines of a wrong shape,
    and accept negative positions.

    Source: ONNX RotaryEmbedding-23; onnxruntime rejects negative positions.
    """
    shape = tensors.shape_of(node.input(0))
    if len(shape) not in (3, 4):
        raise ValueError(f"input 0: expected rank 3 or 4, got {len(shape)}")
    positions, half = node.optional(3), shapes.floordiv(_rotated_size(node), 2)
    rows = (shape[0], shape[-2])
    if positions is not None:
        require_input_shape(node, 3, rows)
        rows = tensors.shape_of(node.input(1))[:1]
        checked_indices(node, positions, "position_ids", rows[0])
    for index in (1, 2):
        require_input_shape(node, index, (*rows, half))
    raise UseFunctionBodyError


def _rotated_size(node: OnnxNode) -> Dim:
    """The number of features of a head that are rotated.

    Raises:
        ValueError: ``num_heads`` is missing, or ``rotary_embedding_dim`` is out of range.
    """
    shape, heads = tensors.shape_of(node.input(0)), node.attrs.get("num_heads", 0)
    if len(shape) == 3 and heads < 1:
        raise ValueError(f"attribute `num_heads`: expected 1 or more, got {heads}")
    size = shape[3] if len(shape) == 4 else shapes.floordiv(shape[2], heads)
    rotated_size = node.attrs.get("rotary_embedding_dim", 0)
    if rotated_size < 0 or is_known_le(size + 1, rotated_size):
        raise ValueError(
            f"attribute `rotary_embedding_dim`: expected 0 to {size}, got {rotated_size}"
        )
    return rotated_size or size


@onnx_rule("com.microsoft::RotaryEmbedding", since=1)
def rotary_embedding(node: OnnxNode) -> ir.Value:
    """Rotary position embedding; a single position is that of each sequence's first element.

    Source: onnxruntime, com.microsoft RotaryEmbedding-1.
    """
    names = ("interleaved", "num_heads", "rotary_embedding_dim", "scale")
    check_inputs_and_attributes(node, 4, *names, "is_packed_batching")
    if node.attrs.get("is_packed_batching", 0):
        raise NotImplementedError("attribute `is_packed_batching` is not supported")
    x, cos, sin = node.input(0), node.input(2), node.input(3)
    shape, angles = tensors.shape_of(x), input_shape(node, 2, "positions", "pairs")
    require_input_shape(node, 3, angles)
    is_flat = len(shape) == 3
    if is_flat:
        x = _split_heads(node, x, known_size(node, 2, 1))
    elif len(shape) != 4:
        raise ValueError(f"input 0: expected rank 3 or 4, got {len(shape)}")
    else:
        known_size(node, 2, 1)
        known_size(node, 0, 3)
    rotated_size = node.attrs.get("rotary_embedding_dim", 0)
    if rotated_size < 0 or (rotated_size and not node.attrs.get("num_heads", 0)):
        raise ValueError(
            f"attribute `rotary_embedding_dim`: expected 0, or `num_heads` with it, "
            f"got {rotated_size}"
        )
    pairs = shapes.floordiv(rotated_size or tensors.shape_of(x)[3], 2)
    require_input_shape(node, 2, (angles[0], pairs))
    y = apply_rotary(
        x, _position_ids(node, x), cos, sin, node.flag("interleaved", default=False)
    )
    scale = node.attr("scale", 1.0)
    y = y if scale == 1 else MultiplyOp(y, scalar_like(node, scale, y)).z
    return (
        ReshapeOp(PermuteDimsOp(y, axes=(0, 2, 1, 3)).y, shape=shape).y
        if is_flat
        else y
    )


def _split_heads(node: OnnxNode, x: ir.Value, half: int) -> ir.Value:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size].

    Raises:
        ValueError: heads do not divide the features, or, if their number is not given,
            ``2 * half`` does not.
        NotKnownError: the number of features is symbolic.
    """
    heads, width = node.attrs.get("num_heads", 0), known_size(node, 0, 2)
    if not heads and (half < 1 or width % (2 * half)):
        raise ValueError(
            f"input 0: expected a multiple of {2 * half} features, got {width}"
        )
    return split_heads(x, heads or width // (2 * half), 0)


def _position_ids(node: OnnxNode, x: ir.Value) -> ir.Value:
    """The position of each element, [batch or 1, sequence]."""
    positions, length = node.input(1), tensors.shape_of(x)[2]
    if len(tensors.shape_of(positions)) < 2:
        row = ArangeOp(start=0, end=length, dtype=tensors.dtype_of(positions)).y
        positions = ReshapeOp(AddOp(row, positions).z, shape=(1, length)).y
    rows = tensors.shape_of(node.input(2))[0]
    return checked_indices(node, positions, "position_ids", rows)
