"""Rules for gather, scatter and indexing."""

from typing import Any

import torch

from relax_mlir.frontends.torch.movement import slice_axis
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size, element_count
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []


@torch_rule("aten.embedding.default")
def embedding(node: TorchNode) -> Expr:
    """Embedding lookup: rows of a table."""
    return op.take(node.tensor("weight"), node.tensor("indices"), 0)


@torch_rule("aten.index_select.default")
def index_select(node: TorchNode) -> Expr:
    """Gather of slices along an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    return op.take(node.tensor("self"), node.tensor("index"), axis)


@torch_rule("aten.gather.default")
def gather(node: TorchNode) -> Expr:
    """Elementwise gather along an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    return op.gather_elements(node.tensor("self"), node.tensor("index"), axis)


@torch_rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(node: TorchNode) -> Expr:
    """Advanced indexing: a gather by several index tensors, broadcast together."""
    given, rank = node.raw("indices"), node.rank_of("self")
    axes = [a for a, i in enumerate(given) if i is not None]
    _check_no_masks(node)
    indices = [node.value(given[a]) for a in axes]
    x = node.tensor("self")
    if len(axes) == 1:
        return op.take(x, indices[0], axes[0])
    rest = [a for a in range(rank) if a not in axes]
    found = op.index_tensor(_permuted(x, [*axes, *rest]), node.packed(indices))
    if axes[-1] - axes[0] + 1 != len(axes) or axes[0] == 0:
        return found  # the indexed axes come first if they are not adjacent
    width = len(node.shape) - len(rest)
    order = [*range(width, width + axes[0]), *range(width)]
    return op.permute_dims(found, [*order, *range(width + axes[0], len(node.shape))])


def _permuted(x: Expr, order: list[int]) -> Expr:
    return x if order == sorted(order) else op.permute_dims(x, order)


def _check_no_masks(node: TorchNode) -> None:
    for value in node.raw("indices"):
        found = None if value is None else str(value.meta["val"].dtype)
        if found in ("torch.bool", "torch.uint8"):
            raise NotImplementedError(
                "an index is a mask, so the shape of the result depends on data: expected "
                "integer indices"
            )


@torch_rule("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(node: TorchNode) -> Expr:
    """Functional scatter by several index tensors: replaces or accumulates elements."""
    given, rank = node.raw("indices"), node.rank_of("self")
    axes = [a for a, i in enumerate(given) if i is not None]
    x, values = node.tensor("self"), node.tensor("values", node.dtype)
    if len(axes) == 1 and str(given[axes[0]].meta["val"].dtype) == "torch.bool":
        return _masked_put(node, x, values)
    _check_no_masks(node)
    indices = [node.value(given[a], "int64") for a in axes]
    indexed = _broadcast_shape(node, [given[a].meta["val"] for a in axes])
    rest = [a for a in range(rank) if a not in axes]
    order = [*axes, *rest]
    if order != sorted(order):
        values = _indexed_axes_first(node, values, len(indexed), len(rest), axes)
    tail = [node.shape[a] for a in rest]
    updates = op.broadcast_to(values, [*indexed, *tail])
    scattered = _scatter(node, _permuted(x, order), indices, indexed, updates)
    return _permuted(scattered, [order.index(a) for a in range(rank)])


def _indexed_axes_first(
    node: TorchNode, values: Expr, width: int, rest: int, axes: list[int]
) -> Expr:
    """Values with the indexed axes moved before the others."""
    if axes[-1] - axes[0] + 1 != len(axes):
        return values  # in torch they come first if the indices are not adjacent
    missing = width + rest - node.rank_of("values")
    if missing:
        values = op.expand_dims(values, list(range(missing)))
    begin = axes[0]
    order = [*range(begin, begin + width), *range(begin)]
    return op.permute_dims(values, [*order, *range(begin + width, width + rest)])


def _scatter(
    node: TorchNode, x: Expr, indices: list[Expr], indexed: list[Size], updates: Expr
) -> Expr:
    """x with slices along its first axes replaced or accumulated."""
    reduction = "add" if node.attr("accumulate") else "update"
    last = [*indexed, 1]
    columns = [op.reshape(op.broadcast_to(i, indexed), last) for i in indices]
    vectors = columns[0] if len(columns) == 1 else op.concat(columns, len(indexed))
    return op.scatter_nd(x, vectors, updates, reduction)


def _broadcast_shape(node: TorchNode, metas: list[Any]) -> list[Size]:
    shape = torch.broadcast_shapes(*(m.shape for m in metas))
    return list(node.graph.sizes.convert_shape(shape))


def _masked_put(node: TorchNode, x: Expr, values: Expr) -> Expr:
    """x with a scalar where a mask over the first axes holds."""
    if node.rank_of("values"):
        raise NotImplementedError("`index_put` by a mask: expected a scalar value")
    given = [i for i in node.raw("indices") if i is not None]
    shape = node.graph.sizes.convert_shape(given[0].meta["val"].shape)
    tail = [1] * (node.rank_of("self") - len(shape))
    mask = op.reshape(node.value(given[0]), [*shape, *tail])
    return op.where(mask, values, x)


@torch_rule(
    *("aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default"),
    *("aten.scatter.reduce", "aten.scatter.value_reduce"),
)
def scatter(node: TorchNode) -> Expr:
    """Functional elementwise scatter along an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    indices, updates = node.tensor("index"), _updates(node)
    kinds = {"add": "add", "multiply": "mul", None: "update"}
    kind = kinds[node.attr("reduce")]
    if "scatter_add" in node.fx_node.target.__name__:
        kind = "add"
    return op.scatter_elements(node.tensor("self"), indices, updates, axis, kind)


def _updates(node: TorchNode) -> Expr:
    shape = node.shape_of("index")
    if node.has("value"):
        return op.full(shape, node.tensor("value", node.dtype), node.dtype)
    updates = node.tensor("src", node.dtype)
    known = node.shape_of("src")
    if all(
        a is b or (isinstance(a, int) and a == b)
        for a, b in zip(shape, known, strict=True)
    ):
        return updates
    for axis, size in enumerate(shape):
        updates = slice_axis(updates, axis, 0, size)
    return updates


@torch_rule("aten.scatter_reduce.two")
def scatter_reduce(node: TorchNode) -> Expr:
    """Functional elementwise scatter along an axis with a reduction."""
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    kind = kinds.get(node.attr("reduce"))
    if kind is None or not node.attr("include_self"):
        raise NotImplementedError(
            "`scatter_reduce`: expected sum, prod, amax or amin with `include_self`, "
            f"got `{node.attr('reduce')}`"
        )
    axis = node.axis("dim", node.rank_of("self"))
    indices, updates = node.tensor("index"), _updates(node)
    return op.scatter_elements(node.tensor("self"), indices, updates, axis, kind)


@torch_rule("aten.slice_scatter.default")
def slice_scatter(node: TorchNode) -> Expr:
    """Functional assignment to a strided slice along an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    size, step = node.shape[axis], node.attr("step")
    begin, end = node.attr("start") or 0, node.attr("end")
    if isinstance(begin, int) and begin < 0:
        begin = size + begin
    count = node.shape_of("src")[axis]
    end = begin + (count - 1) * step + 1
    source = node.tensor("src", node.dtype)
    return op.slice_scatter(node.tensor("self"), source, begin, end, step, axis)


@torch_rule("aten.select_scatter.default")
def select_scatter(node: TorchNode) -> Expr:
    """Functional assignment to one index of an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    begin = node.attr("index")
    if isinstance(begin, int) and begin < 0:
        begin = node.shape[axis] + begin
    source = op.expand_dims(node.tensor("src", node.dtype), axis)
    return op.slice_scatter(node.tensor("self"), source, begin, begin + 1, 1, axis)


@torch_rule("aten.masked_scatter.default")
def masked_scatter(node: TorchNode) -> Expr:
    """x with consecutive elements of a source where a mask holds."""
    shape = node.shape
    count, total = element_count(shape), element_count(node.shape_of("source"))
    mask = node.emit(op.broadcast_to(node.tensor("mask"), shape))
    flags = op.reshape(op.astype(mask, "int64"), (count,))
    before = op.subtract(op.cumsum(flags, 0), const(1, "int64"))
    source = op.reshape(node.tensor("source"), (total,))
    picked = op.reshape(op.take(source, before, 0, "clip"), shape)
    return op.where(mask, picked, node.tensor("self"))


@torch_rule("aten.one_hot.default")
def one_hot(node: TorchNode) -> Expr:
    """One-hot encoding of indices."""
    depth = node.attr("num_classes")
    if not isinstance(depth, int) or depth < 0:
        raise NotImplementedError("`one_hot`: expected a known number of classes")
    one, zero = const(1, "int64"), const(0, "int64")
    return op.one_hot(node.tensor("self"), one, zero, depth)


@torch_rule("aten.bucketize.Tensor", "aten.searchsorted.Tensor")
def bucketize(node: TorchNode) -> Expr:
    """Index of the bucket of each element, by sorted boundaries."""
    names = (
        ("self", "boundaries")
        if node.has("boundaries")
        else ("self", "sorted_sequence")
    )
    if node.rank_of(names[1]) != 1:
        raise NotImplementedError("`searchsorted`: expected boundaries of one axis")
    narrow, right = bool(node.attr("out_int32")), bool(node.attr("right"))
    return op.bucketize(node.tensor(names[0]), node.tensor(names[1]), narrow, right)
