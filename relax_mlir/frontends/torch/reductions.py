"""Rules for reductions, scans and sorting."""

import numpy as np

from relax_mlir.frontends.torch.movement import slice_axis
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import element_count
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []


def _axes(node: TorchNode) -> list[int]:
    return node.axes("dim", node.rank_of("self"))


def _keeps(node: TorchNode) -> bool:
    return bool(node.attr("keepdim"))


@torch_rule("aten.sum.default", "aten.sum.dim_IntList")
def sum_(node: TorchNode) -> Expr:
    """Sum along axes."""
    return op.sum(node.tensor("self", node.dtype), _axes(node), _keeps(node))


@torch_rule("aten.mean.default", "aten.mean.dim")
def mean(node: TorchNode) -> Expr:
    """Mean along axes."""
    return op.mean(node.tensor("self", node.dtype), _axes(node), _keeps(node))


@torch_rule("aten.prod.default", "aten.prod.dim_int")
def prod(node: TorchNode) -> Expr:
    """Product along an axis."""
    return op.prod(node.tensor("self", node.dtype), _axes(node), _keeps(node))


@torch_rule("aten.amax.default", "aten.max.default")
def amax(node: TorchNode) -> Expr:
    """Maximum along axes."""
    return op.max(node.tensor("self"), _axes(node), _keeps(node))


@torch_rule("aten.amin.default", "aten.min.default")
def amin(node: TorchNode) -> Expr:
    """Minimum along axes."""
    return op.min(node.tensor("self"), _axes(node), _keeps(node))


@torch_rule("aten.max.dim", "aten.min.dim")
def extreme(node: TorchNode) -> list[Expr]:
    """Maximum or minimum along an axis, and its index."""
    is_max = node.fx_node.target.__name__.startswith("max")
    (axis,), x = _axes(node), node.tensor("self")
    if not node.rank_of("self"):
        return [x, const(0, "int64")]
    reduce_, find = (op.max, op.argmax) if is_max else (op.min, op.argmin)
    keeps = _keeps(node)
    return [
        reduce_(x, axis, keeps),
        op.astype(find(x, axis, keeps), "int64"),
    ]


@torch_rule("aten.argmax.default", "aten.argmin.default")
def arg_extreme(node: TorchNode) -> Expr:
    """Index of the maximum or minimum along an axis, or of all elements."""
    is_max = "argmax" in node.fx_node.target.__name__
    build, x = (op.argmax if is_max else op.argmin), node.tensor("self")
    rank = node.rank_of("self")
    if not rank:
        return const(0, "int64")
    axis = node.attr("dim")
    if axis is None:
        x, axis = op.reshape(x, (element_count(node.shape_of("self")),)), 0
        found = op.reshape(build(x, axis, False), node.shape)
    else:
        found = build(x, axis % rank, _keeps(node))
    return op.astype(found, node.dtype)


@torch_rule(
    *("aten.any.default", "aten.any.dim", "aten.any.dims"),
    *("aten.all.default", "aten.all.dim", "aten.all.dims"),
)
def truth(node: TorchNode) -> Expr:
    """Whether any or all elements along axes are nonzero."""
    is_any = node.fx_node.target.__name__.startswith("any")
    dtype = node.dtype_of("self")
    is_set = op.not_equal(
        node.tensor("self"), const(False if dtype == "bool" else 0, dtype)
    )
    numbers = op.astype(is_set, "int8")
    build = op.max if is_any else op.min
    if any(s == 0 for s in node.shape_of("self") if isinstance(s, int)):
        return op.full(node.shape, const(not is_any, "bool"), "bool")
    return op.astype(build(numbers, _axes(node), _keeps(node)), "bool")


@torch_rule(
    "aten.var.correction", "aten.std.correction", "aten.var.dim", "aten.std.dim"
)
def variance(node: TorchNode) -> Expr:
    """Variance or standard deviation."""
    found = _variance(node, _keeps(node))
    is_std = node.fx_node.target.__name__.startswith("std")
    return op.sqrt(found) if is_std else found


@torch_rule("aten.var_mean.correction")
def variance_and_mean(node: TorchNode) -> list[Expr]:
    """Variance and mean."""
    found = op.mean(node.tensor("self"), _axes(node), _keeps(node))
    return [_variance(node, _keeps(node)), found]


def _variance(node: TorchNode, keeps: bool) -> Expr:
    axes, shape, dtype = _axes(node), node.shape_of("self"), node.dtype
    found = op.variance(node.tensor("self"), axes, keeps)
    correction = node.attr("correction")
    if correction is None:
        correction = 0 if node.raw("unbiased") is False else 1
    if not correction:
        return found
    count = element_count(tuple(shape[a] for a in axes))
    if isinstance(count, int):
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.divide(float(count), max(count - correction, 0.0))
        return op.multiply(found, const(scale, dtype))
    whole = node.size_tensor(count, dtype)
    rest = op.subtract(whole, const(float(correction), dtype))
    return op.multiply(found, op.divide(whole, rest))


@torch_rule("aten.logsumexp.default")
def logsumexp(node: TorchNode) -> Expr:
    """log(sum(exp(x)))."""
    return op.reduce_log_sum_exp(node.tensor("self"), _axes(node), _keeps(node))


@torch_rule(
    *("aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim"),
    "aten.norm.Scalar",
)
def vector_norm(node: TorchNode) -> Expr:
    """Vector p-norm along axes: (sum |x|^p)^(1/p)."""
    order = node.attr("ord") if node.has("ord") else node.attr("p")
    order = 2.0 if order is None else float(order)
    return _norm(
        node, node.tensor("self", node.dtype), order, _axes(node), _keeps(node)
    )


def _norm(
    node: TorchNode, x: Expr, order: float, axes: list[int] | None, keeps: bool
) -> Expr:
    if order == 2:
        return op.reduce_l2(x, axes, keeps)
    if order == 1:
        return op.reduce_l1(x, axes, keeps)
    if order in (float("inf"), -float("inf")):
        return (op.max if order > 0 else op.min)(op.abs(x), axes, keeps)
    if order == 0:
        is_set = op.not_equal(x, const(0.0, node.dtype))
        return op.sum(op.astype(is_set, node.dtype), axes, keeps)
    powers = op.power(op.abs(x), const(order, node.dtype))
    return op.power(op.sum(powers, axes, keeps), const(1 / order, node.dtype))


@torch_rule("aten.dist.default")
def dist(node: TorchNode) -> Expr:
    """p-norm of the difference of two tensors."""
    difference = op.subtract(*(node.tensor(n, node.dtype) for n in ("self", "other")))
    return _norm(node, difference, float(node.attr("p")), None, False)


@torch_rule("aten._cdist_forward.default")
def distances(node: TorchNode) -> Expr:
    """Pairwise p-norm distances of rows."""
    first = op.expand_dims(node.tensor("x1", node.dtype), -2)
    second = op.expand_dims(node.tensor("x2", node.dtype), -3)
    difference = op.subtract(first, second)
    return _norm(node, difference, float(node.attr("p")), [len(node.shape)], False)


@torch_rule("aten.median.dim", "aten.kthvalue.default")
def ordered(node: TorchNode) -> list[Expr]:
    """Order statistic along an axis (median, k-th smallest), and its index."""
    axis, x = node.axis("dim", node.rank_of("self")), node.tensor("self")
    size = node.shape_of("self")[axis]
    rank = node.attr("k") - 1 if node.has("k") else (size - 1) // 2
    order = node.emit(op.argsort(x, axis, False, "int64"))
    index = node.emit(slice_axis(order, axis, rank, rank + 1))
    found = [op.gather_elements(x, index, axis), index]
    return found if _keeps(node) else [op.squeeze(f, axis) for f in found]


@torch_rule("aten.cumsum.default", "aten.cumprod.default")
def cumulative(node: TorchNode) -> Expr:
    """Cumulative sum or product along an axis."""
    build = op.cumsum if "cumsum" in node.fx_node.target.__name__ else op.cumprod
    x = node.tensor("self", node.dtype)
    rank = node.rank_of("self")
    return build(x, node.axis("dim", rank)) if rank else x


@torch_rule("aten.topk.default")
def topk(node: TorchNode) -> list[Expr]:
    """The k largest or smallest elements along an axis, sorted, and their indices."""
    axis, k = node.axis("dim", node.rank_of("self")), node.attr("k")
    if not isinstance(k, int):
        raise NotImplementedError(f"`topk` of `{k}` elements: expected a known number")
    largest = bool(node.attr("largest"))
    found = op.topk(node.tensor("self"), k, axis, "both", largest, "int64")
    return node.parts(found, 2)


@torch_rule("aten.sort.default", "aten.sort.stable")
def sort(node: TorchNode) -> list[Expr]:
    """Sorted elements along an axis, and their indices."""
    axis, x = node.axis("dim", node.rank_of("self")), node.tensor("self")
    order = node.emit(op.argsort(x, axis, bool(node.attr("descending")), "int64"))
    return [op.gather_elements(x, order, axis), order]


@torch_rule("aten.argsort.default", "aten.argsort.stable")
def argsort(node: TorchNode) -> Expr:
    """Indices that sort an axis."""
    axis = node.axis("dim", node.rank_of("self"))
    return op.argsort(node.tensor("self"), axis, bool(node.attr("descending")), "int64")
