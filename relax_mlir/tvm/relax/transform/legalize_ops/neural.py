"""Legalization rules of activations, normalizations, losses and attention."""

import math
from collections.abc import Mapping
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.objects.prim import intrinsics
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.transform.legalize_ops.calls import LegalizeFunc, te_rule
from relax_mlir.tvm.relax.transform.legalize_ops.elementwise import erf

__all__ = ["RULES"]


def _gelu(x: Any) -> te.Tensor:
    half = prim.const(0.5, x.dtype)
    return x * (half + erf(x * prim.const(math.sqrt(0.5), x.dtype)) * half)


def _gelu_tanh(x: Any) -> te.Tensor:
    def constant(value: float) -> Any:
        return prim.const(value, x.dtype)

    cubic = 1 + constant(0.044715) * x * x
    inner = constant(math.sqrt(2 / math.pi)) * x * cubic
    return constant(0.5) * x * (constant(1.0) + topi.tanh(inner))


def _silu(x: te.Tensor) -> te.Tensor:
    return topi.multiply(x, topi.sigmoid(x))


def _dropout(x: te.Tensor) -> list[te.Tensor]:
    return [topi.identity(x), topi.full_like(x, 1.0)]


def _cross_entropy(x: Any, y: Any) -> te.Tensor:
    total = -topi.sum(x * y)
    return total / x.shape[0] if x.ndim > 1 else total


def _batch_norm(builder: BlockBuilder, call: Call) -> Expr:
    names = ("axis", "epsilon", "center", "scale", "training", "momentum")
    attrs = {name: call.attrs[name] for name in names}
    return builder.call_te(topi.nn.batch_norm, *call.args, **attrs)


def _nll_loss(builder: BlockBuilder, call: Call) -> Expr:
    reduction, ignored = call.attrs["reduction"], call.attrs["ignore_index"]

    def nll_loss_without_weight(x: te.Tensor, targets: te.Tensor) -> te.Tensor:
        classes = x.shape[1 if x.ndim > 1 else 0]
        weights = topi.full((classes,), x.dtype, 1.0)
        return topi.nn.nll_loss(x, targets, weights, reduction, ignored)

    if len(call.args) == 2:
        return builder.call_te(nll_loss_without_weight, *call.args)
    return builder.call_te(
        topi.nn.nll_loss, *call.args, reduction=reduction, ignore_index=ignored
    )


def _attention(name: str) -> LegalizeFunc:
    def rule(builder: BlockBuilder, call: Call) -> Expr:
        if call.attrs.get("window_size") is not None:
            raise ValueError(
                f"LegalizeOps: relax.nn.{name}: sliding windows are not supported"
            )
        scale, mask = call.attrs["scale"], call.attrs["causal_mask"]

        def attention(*tensors: te.Tensor) -> te.Tensor:
            return _attention_program(*tensors, scale=scale, causal_mask=mask)

        return builder.call_te(attention, *call.args, primfunc_name_hint=name)

    return rule


def _attention_program(
    q: Any,
    k: Any,
    v: Any,
    bias: Any = None,
    *,
    scale: float | None,
    causal_mask: str | None,
) -> te.Tensor:
    """Attention of ``q`` [batch, n, heads, d] to ``k`` and ``v`` [batch, m, heads, d]."""
    batch, n, heads, depth = q.shape
    m, depth_v = v.shape[1], v.shape[3]
    batch_heads = batch * heads
    q, k, v = (topi.transpose(t, [0, 2, 1, 3]) for t in (q, k, v))
    q = topi.reshape(q, [batch_heads, n, depth])
    k = topi.reshape(k, [batch_heads, m, depth])
    v = topi.reshape(v, [batch_heads, m, depth_v])
    scores = topi.nn.batch_matmul(q, k, oshape=[batch_heads, n, m])
    if scale is not None:
        scores = topi.multiply(scores, scale)
    else:
        scores = topi.divide(scores, intrinsics.sqrt(prim.Cast(scores.dtype, depth)))
    if bias is not None:
        scores = topi.add(topi.reshape(scores, [batch, heads, n, m]), bias)
        scores = topi.reshape(scores, [batch_heads, n, m])
    weights = (
        topi.nn.softmax(scores)
        if causal_mask is None
        else _causal_softmax(scores, causal_mask, n, m)
    )
    out = topi.nn.batch_matmul(
        weights, v, transpose_b=False, oshape=[batch_heads, n, depth_v]
    )
    out = topi.reshape(out, [batch, heads, n, depth_v])
    return topi.transpose(out, [0, 2, 1, 3])


def _causal_softmax(scores: Any, mask: str, n: Any, m: Any) -> te.Tensor:
    """Returns the softmax over the entries on and below a diagonal (causal mask)."""
    offset: Any = prim.IntImm("int32", 0)
    if mask == "BottomRight":
        offset = intrinsics.abs(n - m).astype("int32")
    elif mask != "TopLeft":
        raise ValueError(
            f"causal_mask: expected `TopLeft` or `BottomRight`, got `{mask}`"
        )
    below = topi.trilu(scores, k=offset, upper=False)
    row_max = topi.max(below, axis=-1, keepdims=True)
    exp = topi.trilu(topi.exp(below - row_max), k=offset, upper=False)
    return topi.divide(exp, topi.sum(exp, axis=-1, keepdims=True))


def _norm(name: str, *attrs: str, **renamed: str) -> LegalizeFunc:
    """A rule for a normalization; ``renamed`` maps parameters of TOPI to attributes."""
    te_func = getattr(topi.nn, name)

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        values = {a: call.attrs[a] for a in attrs}
        values |= {param: call.attrs[attr] for param, attr in renamed.items()}
        return builder.call_te(te_func, *call.args, **values, primfunc_name_hint=name)

    return rule


RULES: Mapping[str, LegalizeFunc] = {
    "nn.relu": te_rule(topi.nn.relu),
    "nn.leakyrelu": te_rule(topi.nn.leaky_relu, None, "alpha"),
    "nn.prelu": te_rule(topi.nn.prelu, None, "axis"),
    "nn.gelu": te_rule(_gelu, "gelu"),
    "nn.gelu_tanh": te_rule(_gelu_tanh, "gelu_tanh"),
    "nn.silu": te_rule(_silu, "silu"),
    "nn.softmax": te_rule(topi.nn.softmax, None, "axis"),
    "nn.log_softmax": te_rule(topi.nn.log_softmax, None, "axis"),
    "nn.dropout": te_rule(_dropout, "dropout"),
    "nn.cross_entropy_with_logits": te_rule(
        _cross_entropy, "cross_entropy_with_logits"
    ),
    "nn.nll_loss": _nll_loss,
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _norm("layer_norm", "epsilon", axis="axes"),
    "nn.rms_norm": _norm("rms_norm", "epsilon", axis="axes"),
    "nn.group_norm": te_rule(
        topi.nn.group_norm, None, "num_groups", "channel_axis", "axes", "epsilon"
    ),
    "nn.attention": _attention("attention"),
    "nn.attention_bias": _attention("attention_bias"),
}
