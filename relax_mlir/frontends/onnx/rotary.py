"""Rotary position embeddings."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.hooks import LeftToBodyError, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.joining import ConcatOp, StackOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.heads import split
from relax_mlir.frontends.onnx.indices import checked
from relax_mlir.frontends.onnx.node_form import (
    check_form,
    check_input_shape,
    input_shape,
    known_size,
)
from relax_mlir.frontends.onnx.scores import number
from relax_mlir.frontends.onnx.slicing import part

__all__ = ["rotated"]


def rotated(
    x: ir.Value, places: ir.Value, cos: ir.Value, sin: ir.Value, is_mixed: bool
) -> ir.Value:
    """Pairs of elements turned by angles that grow with the place.

    Args:
        x: [batch, heads, sequence, size].
        places: [batch, sequence] or [1, sequence].
        cos, sin: [places, half]; what follows the first 2 * half elements stays.
        is_mixed: whether neighbours are pairs; else the halves are.

    Raises:
        ValueError: there are more angles than pairs, or not known how many.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
    """
    batch, heads, length, size = tensors.shape_of(x)
    half = tensors.shape_of(cos)[-1]
    if not isinstance(half, int) or not isinstance(size, int) or 2 * half > size:
        raise ValueError(f"expected angles for {size} elements or fewer, got {half}")
    turn = [TakeOp(table, places, axis=0).y for table in (cos, sin)]
    shape = (tensors.shape_of(places)[0], 1, length, half)
    c, s = (ReshapeOp(table, shape=shape).y for table in turn)
    ends = (
        ((0, 2 * half, 2), (1, 2 * half, 2))
        if is_mixed
        else ((0, half), (half, 2 * half))
    )
    a, b = (part(x, 3, *bounds) for bounds in ends)
    first = SubtractOp(MultiplyOp(a, c).z, MultiplyOp(b, s).z).z
    second = AddOp(MultiplyOp(a, s).z, MultiplyOp(b, c).z).z
    if is_mixed:
        pairs = StackOp([first, second], axis=4).y
        y = ReshapeOp(pairs, shape=(batch, heads, length, 2 * half)).y
    else:
        y = ConcatOp([first, second], axis=3).y
    if 2 * half == size:
        return y
    return ConcatOp([y, part(x, 3, 2 * half, size)], axis=3).y


@onnx_rule("RotaryEmbedding", since=23)
def standard_rotary_embedding(node: OnnxNode) -> ir.Value:
    """Rotary position embedding, by the standard's own body.

    The body would broadcast positions, cosines or sines of another shape, or cut them,
    and let positions count from the end.

    Source: ONNX RotaryEmbedding-23; onnxruntime refuses negative positions.
    """
    shape = tensors.shape_of(node.input(0))
    if len(shape) not in (3, 4):
        raise ValueError(f"input 0: expected rank 3 or 4, got {len(shape)}")
    places, half = node.optional(3), shapes.floordiv(_rotated_size(node), 2)
    rows = (shape[0], shape[-2])
    if places is not None:
        check_input_shape(node, 3, rows)
        rows = tensors.shape_of(node.input(1))[:1]
        checked(node, places, "position_ids", rows[0])
    for index in (1, 2):
        check_input_shape(node, index, (*rows, half))
    raise LeftToBodyError


def _rotated_size(node: OnnxNode) -> Dim:
    """How many elements of a head are turned.

    Raises:
        ValueError: the attributes do not say, or say fewer than 0, or more than there are.
    """
    shape, heads = tensors.shape_of(node.input(0)), node.attrs.get("num_heads", 0)
    if len(shape) == 3 and heads < 1:
        raise ValueError(f"attribute `num_heads`: expected 1 or more, got {heads}")
    size = shape[3] if len(shape) == 4 else shapes.floordiv(shape[2], heads)
    turned = node.attrs.get("rotary_embedding_dim", 0)
    if turned < 0 or is_known_le(size + 1, turned):
        raise ValueError(
            f"attribute `rotary_embedding_dim`: expected 0 to {size}, got {turned}"
        )
    return turned or size


@onnx_rule("com.microsoft::RotaryEmbedding", since=1)
def rotary_embedding(node: OnnxNode) -> ir.Value:
    """Elements turned by their place; one place is that of the first of a sequence.

    Source: onnxruntime, com.microsoft RotaryEmbedding-1.
    """
    names = ("interleaved", "num_heads", "rotary_embedding_dim", "scale")
    check_form(node, 4, *names, "is_packed_batching")
    if node.attrs.get("is_packed_batching", 0):
        raise NotImplementedError("attribute `is_packed_batching` is not supported")
    x, cos, sin = node.input(0), node.input(2), node.input(3)
    shape, angles = tensors.shape_of(x), input_shape(node, 2, "places", "pairs")
    check_input_shape(node, 3, angles)
    is_flat = len(shape) == 3
    if is_flat:
        x = _by_heads(node, x, known_size(node, 2, 1))
    elif len(shape) != 4:
        raise ValueError(f"input 0: expected rank 3 or 4, got {len(shape)}")
    else:
        known_size(node, 2, 1)
        known_size(node, 0, 3)
    turned = node.attrs.get("rotary_embedding_dim", 0)
    if turned < 0 or (turned and not node.attrs.get("num_heads", 0)):
        raise ValueError(
            f"attribute `rotary_embedding_dim`: expected 0, or `num_heads` beside it, "
            f"got {turned}"
        )
    pairs = shapes.floordiv(turned or tensors.shape_of(x)[3], 2)
    check_input_shape(node, 2, (angles[0], pairs))
    y = rotated(
        x, _all_places(node, x), cos, sin, node.flag("interleaved", default=False)
    )
    factor = node.attr("scale", 1.0)
    y = y if factor == 1 else MultiplyOp(y, number(node, factor, y)).z
    return (
        ReshapeOp(PermuteDimsOp(y, axes=(0, 2, 1, 3)).y, shape=shape).y
        if is_flat
        else y
    )


def _by_heads(node: OnnxNode, x: ir.Value, half: int) -> ir.Value:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size].

    Raises:
        ValueError: the features do not fit the heads, or are no pairs of ``half``.
        NotKnownError: their number is open.
    """
    heads, width = node.attrs.get("num_heads", 0), known_size(node, 0, 2)
    if not heads and (half < 1 or width % (2 * half)):
        raise ValueError(
            f"input 0: expected a multiple of {2 * half} features, got {width}"
        )
    return split(x, heads or width // (2 * half), 0)


def _all_places(node: OnnxNode, x: ir.Value) -> ir.Value:
    """The place of every element [batch or 1, sequence]."""
    places, length = node.input(1), tensors.shape_of(x)[2]
    if len(tensors.shape_of(places)) < 2:
        row = ArangeOp(start=0, end=length, dtype=tensors.dtype_of(places)).y
        places = ReshapeOp(AddOp(row, places).z, shape=(1, length)).y
    rows = tensors.shape_of(node.input(2))[0]
    return checked(node, places, "position_ids", rows)
