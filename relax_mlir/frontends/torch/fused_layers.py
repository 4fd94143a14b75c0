"""Rules for torch's fused inference operators: attention and transformer encoder layers."""

import math

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []


@torch_rule("aten._native_multi_head_attention.default")
def multi_head_attention(node: TorchNode) -> list[Expr | None]:
    """Multi-head attention with its projections, and the attention weights if requested."""
    width, names = node.attr("embed_dim"), ("query", "key", "value")
    weight, bias = (node.tensor(f"qkv_{n}") for n in ("weight", "bias"))
    parts: list[Expr] = []
    for index, name in enumerate(names):
        rows = ([0], [index * width], [(index + 1) * width])
        own = (op.strided_slice(w, *rows, assume_inbound=True) for w in (weight, bias))
        parts.append(_linear(node.tensor(name), *own))
    found, weights = _projected_attention(node, parts, node.attr("num_head"))
    if not node.attr("need_weights"):
        return [found, None]
    if node.attr("average_attn_weights"):
        weights = op.mean(weights, [1], False)
    return [found, weights]


@torch_rule("aten._transformer_encoder_layer_fwd.default")
def encoder_layer(node: TorchNode) -> Expr:
    """Transformer encoder layer: self-attention and a feed-forward network, with residuals.

    Source: Vaswani et al., Attention Is All You Need, 2017; with ``norm_first``: Xiong et
    al., On Layer Normalization in the Transformer Architecture, 2020.
    """
    x, is_pre_norm = node.tensor("src"), node.attr("norm_first")
    inner = _normalized(node, x, 1) if is_pre_norm else x
    weight, bias = (node.tensor(f"qkv_{n}") for n in ("weight", "bias"))
    parts = node.parts(op.split(_linear(inner, weight, bias), 3, 2), 3)
    found, _ = _projected_attention(node, parts, node.attr("num_heads"))
    x = node.emit(op.add(x, found))
    if not is_pre_norm:
        x = _normalized(node, x, 1)
    inner = _normalized(node, x, 2) if is_pre_norm else x
    x = node.emit(op.add(x, _feed_forward(node, inner)))
    return x if is_pre_norm else _normalized(node, x, 2)


def _linear(x: Expr, weight: Expr, bias: Expr) -> Expr:
    return op.add(op.matmul(x, op.permute_dims(weight)), bias)


def _normalized(node: TorchNode, x: Expr, number: int) -> Expr:
    gamma, beta = (node.tensor(f"norm_{n}_{number}") for n in ("weight", "bias"))
    return node.emit(op.nn.layer_norm(x, gamma, beta, [-1], float(node.attr("eps"))))


def _feed_forward(node: TorchNode, x: Expr) -> Expr:
    layers = [[node.tensor(f"ffn_{n}_{i}") for n in ("weight", "bias")] for i in (1, 2)]
    inner = _linear(x, *layers[0])
    activated = op.nn.gelu(inner) if node.attr("use_gelu") else op.nn.relu(inner)
    return _linear(activated, *layers[1])


def _projected_attention(
    node: TorchNode, parts: list[Expr], heads: int
) -> tuple[Expr, Expr]:
    """Attention of projected queries, keys and values, with output projection; its weights."""
    name = "query" if node.has("query") else "src"
    names = [name, "key", "value"] if name == "query" else [name] * 3
    width = node.attr("embed_dim") // heads
    query, key, value = (
        _heads(node, part, n, heads) for part, n in zip(parts, names, strict=True)
    )
    query = op.multiply(query, const(1 / math.sqrt(width), node.dtype))
    scores = node.emit(op.matmul(query, op.permute_dims(key, [0, 1, 3, 2])))
    weights = node.emit(op.nn.softmax(_masked(node, scores), -1))
    batch, length, whole = node.shape_of(name)
    swapped = op.permute_dims(op.matmul(weights, value), [0, 2, 1, 3])
    flat = op.reshape(swapped, (batch, length, whole))
    found = _linear(flat, node.tensor("proj_weight"), node.tensor("proj_bias"))
    return found, weights


def _heads(node: TorchNode, x: Expr, name: str, heads: int) -> Expr:
    """Split heads: [b, s, heads d] to [b, heads, s, d]."""
    batch, length, whole = node.shape_of(name)
    assert isinstance(whole, int)
    features = op.reshape(x, (batch, length, heads, whole // heads))
    return op.permute_dims(features, [0, 2, 1, 3])


_KEY_PADDING = 1  # mask_type of a mask [b, t]; others broadcast


def _masked(node: TorchNode, scores: Expr) -> Expr:
    """Scores with the mask applied: -inf where a bool mask holds, else added."""
    if not node.has("mask"):
        return scores
    shape, mask = list(node.shape_of("mask")), node.tensor("mask")
    if node.attr("mask_type") == _KEY_PADDING:
        sizes: list[Size] = [shape[0], 1, 1, shape[1]]
        mask = op.reshape(mask, sizes)
    if node.dtype_of("mask") != "bool":
        return op.add(scores, mask)
    return op.where(mask, const(-math.inf, node.dtype), scores)
