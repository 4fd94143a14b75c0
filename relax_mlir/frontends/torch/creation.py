"""Rules for operators that make tensors of numbers and sizes."""

import numpy as np

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.objects.expr import Expr, const
from relax_mlir.relax import op

__all__: list[str] = []


@torch_rule("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(node: TorchNode) -> Expr:
    """One number everywhere."""
    return op.full(node.shape, node.tensor("fill_value", node.dtype), node.dtype)


@torch_rule(
    *("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"),
    *("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default"),
    *("aten.empty_strided.default", "aten.empty_permuted.default"),
    "aten.new_empty_strided.default",
)
def zeros(node: TorchNode) -> Expr:
    """Zeros; also where any numbers will do."""
    return op.zeros(node.shape, node.dtype)


@torch_rule("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(node: TorchNode) -> Expr:
    """Ones."""
    return op.ones(node.shape, node.dtype)


@torch_rule("aten.fill.Scalar", "aten.fill.Tensor")
def fill(node: TorchNode) -> Expr:
    """One number in place of all."""
    return op.full(node.shape, node.tensor("value", node.dtype), node.dtype)


@torch_rule("aten.copy.default")
def copy(node: TorchNode) -> Expr:
    """A tensor in place of another, whose shape and type it gets."""
    return op.broadcast_to(node.tensor("src", node.dtype), node.shape)


@torch_rule("aten.scalar_tensor.default")
def scalar_tensor(node: TorchNode) -> Expr:
    """A number as a tensor."""
    return node.tensor("s", node.dtype)


@torch_rule("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(node: TorchNode) -> Expr:
    """Numbers at equal distances."""
    start, step = node.attr("start") or 0, node.attr("step")
    step = 1 if step is None else step
    return op.arange(start, node.attr("end"), step, node.dtype)


@torch_rule("aten.linspace.default")
def linspace(node: TorchNode) -> Expr:
    """Numbers at equal distances between two, both of which are there."""
    count = node.attr("steps")
    places = op.arange(0, count, 1, "int64")
    start, end = (node.tensor(n, node.dtype) for n in ("start", "end"))
    if count == 1:
        return op.reshape(start, (1,))
    gaps = node.size_tensor(count - 1, node.dtype)
    step = op.divide(op.subtract(end, start), gaps)
    return op.add(start, op.multiply(op.astype(places, node.dtype), step))


@torch_rule("aten.eye.default", "aten.eye.m")
def eye(node: TorchNode) -> Expr:
    """Ones on the diagonal."""
    return op.eye(*node.shape, dtype=node.dtype)


@torch_rule("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(node: TorchNode) -> Expr:
    """Where the elements of a triangle are."""
    rows, columns = node.attr("row"), node.attr("col")
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise NotImplementedError("indices of a triangle: expected known sizes")
    is_lower = "tril" in node.fx_node.target.__name__
    find = np.tril_indices if is_lower else np.triu_indices
    return const(np.stack(find(rows, node.attr("offset"), columns)), node.dtype)
