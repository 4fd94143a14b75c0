"""Rules for matmuls and attention."""

import math
from typing import Any

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []


@torch_rule("aten.linear.default")
def linear(node: TorchNode) -> Expr:
    """Linear layer: x @ weight^T + bias."""
    weight = node.tensor("weight")
    if node.rank_of("weight") == 2:
        weight = op.permute_dims(weight)
    y = op.matmul(node.tensor("input"), weight)
    return op.add(y, node.tensor("bias")) if node.has("bias") else y


@torch_rule("aten.mm.default", "aten.bmm.default")
def mm(node: TorchNode) -> Expr:
    """Matmul, batched for ``bmm``."""
    return op.matmul(node.tensor("self"), node.tensor("mat2"))


@torch_rule("aten.matmul.default")
def matmul(node: TorchNode) -> Expr:
    """Matmul of matrices and vectors, with broadcast batch axes."""
    return op.matmul(node.tensor("self"), node.tensor("other"))


@torch_rule("aten.mv.default")
def matrix_vector(node: TorchNode) -> Expr:
    """Matrix-vector product (GEMV)."""
    return op.matmul(node.tensor("self"), node.tensor("vec"))


@torch_rule("aten.dot.default")
def dot(node: TorchNode) -> Expr:
    """Dot product."""
    return op.matmul(node.tensor("self"), node.tensor("tensor"))


@torch_rule("aten.outer.default")
def outer(node: TorchNode) -> Expr:
    """Outer product."""
    return op.outer(node.tensor("self", node.dtype), node.tensor("vec2", node.dtype))


@torch_rule("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def addmm(node: TorchNode) -> Expr:
    """GEMM: beta * self + alpha * (a @ b)."""
    first, second = {
        "addmm": ("mat1", "mat2"),
        "baddbmm": ("batch1", "batch2"),
        "addmv": ("mat", "vec"),
    }[node.fx_node.target.__name__.partition(".")[0]]
    y = op.matmul(node.tensor(first), node.tensor(second))
    scaled = _times(node, y, node.raw("alpha"))
    if node.raw("beta") == 0:
        return scaled
    return op.add(scaled, _times(node, node.tensor("self"), node.raw("beta")))


def _times(node: TorchNode, value: Expr, scale: Any) -> Expr:
    if scale is None or scale == 1:
        return value
    return op.multiply(value, node.value(scale, node.dtype))


@torch_rule("aten.einsum.default")
def einsum(node: TorchNode) -> Expr:
    """Einstein summation."""
    return op.einsum(node.packed(node.tensors("tensors")), node.attr("equation"))


@torch_rule("aten.scaled_dot_product_attention.default")
def attention(node: TorchNode) -> Expr:
    """Scaled dot-product attention: softmax(query key^T scale + mask) value."""
    return _attention(node)


@torch_rule(
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_efficient_attention.default",
)
def fused_attention(node: TorchNode) -> list[Expr | None]:
    """Scaled dot-product attention without the results that only training uses."""
    rest = [None] * (len(node.results) - 1)
    return [_attention(node), *rest]


def _attention(node: TorchNode) -> Expr:
    if node.attr("dropout_p"):
        raise NotImplementedError(
            "attention with dropout: expected a model in `eval()`"
        )
    query, key, value = (node.tensor(n) for n in ("query", "key", "value"))
    sizes, keys = node.shape_of("query"), node.shape_of("key")
    grouped = _is_grouped(node)
    if grouped:
        query = op.reshape(query, _grouped_shape(sizes, keys[-3]))
        key, value = op.expand_dims(key, -3), op.expand_dims(value, -3)
    rank = len(sizes) + grouped
    order = [*range(rank - 2), rank - 1, rank - 2]
    scale = node.attr("scale") or 1 / math.sqrt(_known(sizes[-1]))
    query = op.multiply(query, const(scale, node.dtype))
    scores = node.emit(op.matmul(query, op.permute_dims(key, order)))
    weights = _weights(node, scores, grouped)
    found = op.matmul(weights, value)
    return op.reshape(found, node.shape) if grouped else found


def _is_grouped(node: TorchNode) -> bool:
    """Whether query heads share key heads (grouped-query attention)."""
    heads = [
        node.shape_of(n)[-3] if node.rank_of(n) > 2 else 1 for n in ("query", "key")
    ]
    return bool(node.attr("enable_gqa")) and heads[0] != heads[1]


def _grouped_shape(sizes: tuple[Size, ...], groups: Size) -> list[Size]:
    """A shape [..., heads, s, d] with split heads: [..., groups, heads per group, s, d]."""
    each = _known(sizes[-3]) // _known(groups)
    return [*sizes[:-3], groups, each, *sizes[-2:]]


def _known(size: Size) -> int:
    if not isinstance(size, int):
        raise NotImplementedError(
            f"attention: expected a known number of heads and features, got `{size}`"
        )
    return size


def _weights(node: TorchNode, scores: Expr, grouped: bool) -> Expr:
    """Attention weights: softmax of masked scores; fully masked rows are 0."""
    hidden = const(-math.inf, node.dtype)
    if node.attr("is_causal"):
        rows, columns = node.shape_of("query")[-2], node.shape_of("key")[-2]
        own = op.reshape(op.arange(0, rows, 1, "int64"), (rows, 1))
        visible = op.less_equal(op.arange(0, columns, 1, "int64"), own)
        return op.nn.softmax(op.where(visible, scores, hidden), -1)
    name = "attn_mask" if node.has("attn_mask") else "attn_bias"
    if not node.has(name):
        return op.nn.softmax(scores, -1)
    is_bool = node.dtype_of(name) == "bool"
    mask = node.tensor(name) if is_bool else node.tensor(name, node.dtype)
    if grouped:
        mask = _grouped_mask(node, name, mask)
    masked = op.where(mask, scores, hidden) if is_bool else op.add(scores, mask)
    masked = node.emit(masked)
    is_fully_masked = op.equal(op.max(masked, -1, True), hidden)
    return op.where(is_fully_masked, const(0.0, node.dtype), op.nn.softmax(masked, -1))


def _grouped_mask(node: TorchNode, name: str, mask: Expr) -> Expr:
    """A mask [..., heads, s, t] with its heads split into groups."""
    shape = node.shape_of(name)
    if len(shape) < 3:
        return mask
    if isinstance(shape[-3], int) and shape[-3] == 1:
        return op.expand_dims(mask, -3)
    return op.reshape(mask, _grouped_shape(shape, node.shape_of("key")[-3]))
