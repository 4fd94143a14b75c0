"""Rules for data movement: views, transposes, slices, concatenation and padding."""

from collections.abc import Sequence

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.objects.expr import Expr
from relax_mlir.tvm.relax import op

__all__ = ["slice_axis"]


@torch_rule(
    *("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"),
    *("aten.view_copy.default", "aten._reshape_copy.default"),
    *("aten.unsqueeze.default", "aten.flatten.using_ints", "aten.unflatten.int"),
    *("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"),
)
def reshape(node: TorchNode) -> Expr:
    """Reshape, for all operators that only change the shape."""
    return op.reshape(node.tensor("self"), node.shape)


@torch_rule("aten.permute.default", "aten.permute_copy.default")
def permute(node: TorchNode) -> Expr:
    """Permutation of axes."""
    rank = node.rank_of("self")
    return op.permute_dims(node.tensor("self"), [a % rank for a in node.attr("dims")])


@torch_rule("aten.transpose.int")
def transpose(node: TorchNode) -> Expr:
    """Exchange of two axes."""
    rank = node.rank_of("self")
    order, (a, b) = list(range(rank)), (node.axis(n, rank) for n in ("dim0", "dim1"))
    if not rank:
        return node.tensor("self")
    order[a], order[b] = b, a
    return op.permute_dims(node.tensor("self"), order)


@torch_rule("aten.t.default", "aten.numpy_T.default")
def reverse_axes(node: TorchNode) -> Expr:
    """Transpose: reverses the order of all axes."""
    rank = node.rank_of("self")
    return op.permute_dims(node.tensor("self"), list(reversed(range(rank))))


@torch_rule("aten.movedim.int", "aten.movedim.intlist")
def movedim(node: TorchNode) -> Expr:
    """Moves axes to other positions."""
    rank = node.rank_of("self")
    source, target = (node.axes(n, rank) for n in ("source", "destination"))
    rest = iter(a for a in range(rank) if a not in source)
    moved = dict(zip(target, source, strict=True))
    order = [moved[i] if i in moved else next(rest) for i in range(rank)]
    return op.permute_dims(node.tensor("self"), order)


@torch_rule("aten.expand.default", "aten.expand_copy.default", "aten.expand_as.default")
def expand(node: TorchNode) -> Expr:
    """Broadcast to a shape."""
    return op.broadcast_to(node.tensor("self"), node.shape)


@torch_rule("aten.cat.default", "aten.concat.default")
def cat(node: TorchNode) -> Expr:
    """Concatenation along an axis; torch permits and skips empty vectors."""
    given = node.raw("tensors")
    rank = len(node.shape)
    kept = [v for v in given if len(v.meta["val"].shape) == rank]
    axis = node.axis("dim", rank)
    return op.concat([node.value(v, node.dtype) for v in kept], axis)


@torch_rule("aten.stack.default")
def stack(node: TorchNode) -> Expr:
    """Stack along a new axis."""
    axis = node.axis("dim", len(node.shape))
    return op.stack(node.tensors("tensors", node.dtype), axis)


@torch_rule("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(node: TorchNode) -> Expr:
    """Strided slice along an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    size, step = node.shape_of("self")[axis], node.attr("step")
    begin, count = _clamped_index(node.attr("start") or 0, size), node.shape[axis]
    if isinstance(begin, int) and begin == 0 and count is size:
        return node.tensor("self")
    return slice_axis(
        node.tensor("self"), axis, begin, begin + (count - 1) * step + 1, step
    )


def slice_axis(x: Expr, axis: int, begin: Size, end: Size, step: int = 1) -> Expr:
    """Slice along one axis; its bounds are known to be in range."""
    return op.strided_slice(x, [axis], [begin], [end], [step], assume_inbound=True)


def _clamped_index(index: Size, size: Size) -> Size:
    """A slice bound as a nonnegative index, clamped to the axis."""
    if isinstance(index, int) and index < 0:
        index = size + index
        return max(index, 0) if isinstance(index, int) else index
    if isinstance(index, int) and isinstance(size, int):
        return min(index, size)
    return index


@torch_rule("aten.select.int", "aten.select_copy.int")
def select(node: TorchNode) -> Expr:
    """One index of an axis, which is removed."""
    axis = node.axis("dim", node.rank_of("self"))
    begin = _clamped_index(node.attr("index"), node.shape_of("self")[axis])
    return op.squeeze(slice_axis(node.tensor("self"), axis, begin, begin + 1), axis)


@torch_rule("aten.narrow.default")
def narrow(node: TorchNode) -> Expr:
    """Slice along an axis by start and length."""
    axis = node.axis("dim", node.rank_of("self"))
    begin = _clamped_index(node.attr("start"), node.shape_of("self")[axis])
    return slice_axis(node.tensor("self"), axis, begin, begin + node.attr("length"))


@torch_rule(
    *("aten.split_with_sizes.default", "aten.split_with_sizes_copy.default"),
    *("aten.split.Tensor", "aten.split.sizes", "aten.chunk.default"),
    "aten.tensor_split.sections",
)
def split(node: TorchNode) -> list[Expr]:
    """Split along an axis into the sizes that torch inferred."""
    axis = node.axis("dim", node.rank_of("self"))
    name = "input" if node.has("input") else "self"
    sizes = [node.graph.sizes.convert(r.shape[axis]) for r in node.results]
    return _parts(node.tensor(name), axis, sizes)


def _parts(x: Expr, axis: int, sizes: Sequence[Size]) -> list[Expr]:
    parts: list[Expr] = []
    begin: Size = 0
    for size in sizes:
        parts.append(slice_axis(x, axis, begin, begin + size))
        begin = begin + size
    return parts


@torch_rule("aten.unbind.int", "aten.unbind_copy.int")
def unbind(node: TorchNode) -> list[Expr]:
    """All slices along an axis, which is removed."""
    axis = node.axis("dim", node.rank_of("self"))
    x = node.tensor("self")
    slices = (slice_axis(x, axis, i, i + 1) for i in range(len(node.results)))
    return [op.squeeze(s, axis) for s in slices]


@torch_rule("aten.flip.default")
def flip(node: TorchNode) -> Expr:
    """Reversal of elements along axes."""
    found = node.tensor("self")
    for axis in node.attr("dims"):
        found = op.flip(found, axis)
    return found


@torch_rule("aten.roll.default")
def roll(node: TorchNode) -> Expr:
    """Cyclic shift along axes."""
    found, shape = node.tensor("self"), node.shape
    axes = node.attr("dims")
    if not axes:
        raise NotImplementedError("`roll` of all elements as one axis: expected `dims`")
    for shift, axis in zip(node.attr("shifts"), axes, strict=True):
        size = shape[axis]
        if not isinstance(size, int) and not isinstance(shift, int):
            raise NotImplementedError(f"`roll` by `{shift}`: expected a known number")
        cut = (-shift) % size if isinstance(size, int) else _split_point(shift, size)
        axis %= len(shape)
        head, tail = slice_axis(found, axis, 0, cut), slice_axis(found, axis, cut, size)
        found = node.emit(op.concat([tail, head], axis))
    return found


def _split_point(shift: int, size: Size) -> Size:
    """The split point of a cyclic shift of a symbolic size, which is at least the shift."""
    return -shift if shift < 0 else size - shift


@torch_rule("aten.repeat.default", "aten.tile.default")
def repeat(node: TorchNode) -> Expr:
    """Tiling: repeats the whole tensor along its axes."""
    found, repeats = (
        node.tensor("self"),
        node.attr("repeats" if node.has("repeats") else "dims"),
    )
    if all(isinstance(r, int) for r in repeats):
        return op.tile(found, repeats)
    old = node.shape_of("self")
    repeats = [1] * (len(old) - len(repeats)) + list(repeats)
    old = (1,) * (len(repeats) - len(old)) + tuple(old)
    unsqueezed = [s for size in old for s in (1, size)]
    wide = [s for pair in zip(repeats, old, strict=True) for s in pair]
    repeated = op.broadcast_to(op.reshape(found, unsqueezed), wide)
    return op.reshape(repeated, node.shape)


@torch_rule("aten.repeat_interleave.self_int")
def repeat_interleave(node: TorchNode) -> Expr:
    """Repeats each element consecutively."""
    return op.repeat(node.tensor("self"), node.attr("repeats"), node.attr("dim"))


@torch_rule("aten.constant_pad_nd.default")
def constant_pad(node: TorchNode) -> Expr:
    """Padding with a constant."""
    value = float(node.attr("value"))
    return op.nn.pad(node.tensor("self"), _widths(node, "pad"), pad_value=value)


_PADS = {"reflection": "reflect", "replication": "replicate"}


@torch_rule(*(f"aten.{kind}_pad{n}d.default" for kind in _PADS for n in (1, 2, 3)))
def pad(node: TorchNode) -> Expr:
    """Padding by reflection or replication."""
    mode = _PADS[node.fx_node.target.__name__.partition("_")[0]]
    return op.nn.pad(node.tensor("self"), _widths(node, "padding"), pad_mode=mode)


def _widths(node: TorchNode, name: str) -> list[Size]:
    """Pad widths (before, after) per axis; torch lists the last axis first."""
    given = node.attr(name)
    pairs = [given[i : i + 2] for i in range(0, len(given), 2)]
    missing = node.rank_of("self") - len(pairs)
    before: list[Size] = [0] * (2 * missing)
    return before + [w for pair in reversed(pairs) for w in pair]


@torch_rule("aten.pixel_shuffle.default")
def pixel_shuffle(node: TorchNode) -> Expr:
    """Pixel shuffle: rearranges channels into spatial blocks."""
    return op.nn.pixel_shuffle(node.tensor("self"), node.attr("upscale_factor"))


@torch_rule("aten.tril.default", "aten.triu.default")
def triangle(node: TorchNode) -> Expr:
    """Lower or upper triangle of each matrix."""
    build = op.tril if "tril" in node.fx_node.target.__name__ else op.triu
    return build(node.tensor("self"), node.attr("diagonal"))


@torch_rule("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(node: TorchNode) -> Expr:
    """View by strides; supported only if it is the tensor's own layout."""
    meta = node.meta("self")
    same = tuple(node.attr("stride")) == tuple(meta.stride()) and not node.attr(
        "storage_offset"
    )
    if not same or tuple(node.shape) != tuple(node.shape_of("self")):
        raise NotImplementedError(
            "`as_strided`: expected the tensor's own layout, got other strides"
        )
    return node.tensor("self")


@torch_rule("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(node: TorchNode) -> Expr:
    """Diagonal of two axes, with an offset."""
    rank = node.rank_of("self")
    first, second = (node.axis(n, rank) for n in ("dim1", "dim2"))
    offset, length = node.attr("offset"), node.shape[-1]
    rest = [a for a in range(rank) if a not in (first, second)]
    moved = node.emit(op.permute_dims(node.tensor("self"), [first, second, *rest]))
    indices = [
        op.arange(max(-offset, 0), max(-offset, 0) + length, 1, "int64"),
        op.arange(max(offset, 0), max(offset, 0) + length, 1, "int64"),
    ]
    found = op.index_tensor(moved, node.packed([node.emit(i) for i in indices]))
    return op.permute_dims(found, [*range(1, rank - 1), 0]) if rest else found


@torch_rule("aten.unfold.default", "aten.unfold_copy.default")
def unfold(node: TorchNode) -> Expr:
    """Sliding windows along an axis, with their elements along a new last axis."""
    rank = node.rank_of("self")
    axis, size = node.axis("dimension", rank), node.attr("size")
    count, step = node.shape[axis], node.attr("step")
    begins = op.arange(0, (count - 1) * step + 1, step, "int64")
    indices = op.add(op.reshape(begins, (count, 1)), op.arange(0, size, 1, "int64"))
    found = op.take(node.tensor("self"), indices, axis)
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return op.permute_dims(found, order)


@torch_rule("aten.meshgrid.indexing", "aten.meshgrid.default")
def meshgrid(node: TorchNode) -> list[Expr]:
    """Coordinate grids of several vectors."""
    vectors = node.tensors("tensors")
    order = node.attr("indexing") or "ij"
    return node.parts(op.meshgrid(node.packed(vectors), order), len(vectors))
