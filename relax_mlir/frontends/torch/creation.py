"""Rules for tensor creation."""

import numpy as np

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []


@torch_rule("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(node: TorchNode) -> Expr:
    """A tensor filled with one value."""
    return op.full(node.shape, node.tensor("fill_value", node.dtype), node.dtype)


@torch_rule(
    *("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"),
    *("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default"),
    *("aten.empty_strided.default", "aten.empty_permuted.default"),
    "aten.new_empty_strided.default",
)
def zeros(node: TorchNode) -> Expr:
    """A tensor of zeros; also for ``empty``, whose contents are unspecified."""
    return op.zeros(node.shape, node.dtype)


@torch_rule("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(node: TorchNode) -> Expr:
    """A tensor of ones."""
    return op.ones(node.shape, node.dtype)


@torch_rule("aten.fill.Scalar", "aten.fill.Tensor")
def fill(node: TorchNode) -> Expr:
    """A tensor overwritten with one value."""
    return op.full(node.shape, node.tensor("value", node.dtype), node.dtype)


@torch_rule("aten.copy.default")
def copy(node: TorchNode) -> Expr:
    """A tensor broadcast and cast to the shape and type of the destination."""
    return op.broadcast_to(node.tensor("src", node.dtype), node.shape)


@torch_rule("aten.scalar_tensor.default")
def scalar_tensor(node: TorchNode) -> Expr:
    """A scalar tensor of a number."""
    return node.tensor("s", node.dtype)


@torch_rule("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(node: TorchNode) -> Expr:
    """Evenly spaced numbers by start, end and step."""
    start, step = node.attr("start") or 0, node.attr("step")
    step = 1 if step is None else step
    return op.arange(start, node.attr("end"), step, node.dtype)


@torch_rule("aten.linspace.default")
def linspace(node: TorchNode) -> Expr:
    """Evenly spaced numbers in a closed interval."""
    count = node.attr("steps")
    indices = op.arange(0, count, 1, "int64")
    start, end = (node.tensor(n, node.dtype) for n in ("start", "end"))
    if count == 1:
        return op.reshape(start, (1,))
    intervals = node.size_tensor(count - 1, node.dtype)
    step = op.divide(op.subtract(end, start), intervals)
    return op.add(start, op.multiply(op.astype(indices, node.dtype), step))


@torch_rule("aten.eye.default", "aten.eye.m")
def eye(node: TorchNode) -> Expr:
    """The identity matrix."""
    return op.eye(*node.shape, dtype=node.dtype)


@torch_rule("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(node: TorchNode) -> Expr:
    """Row and column indices of a triangle of a matrix."""
    rows, columns = node.attr("row"), node.attr("col")
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise NotImplementedError("indices of a triangle: expected known sizes")
    is_lower = "tril" in node.fx_node.target.__name__
    find = np.tril_indices if is_lower else np.triu_indices
    return const(np.stack(find(rows, node.attr("offset"), columns)), node.dtype)
