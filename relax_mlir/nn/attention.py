"""Attention, and what tells a network of times."""

from __future__ import annotations

from typing import Any

from relax_mlir.errors import UnsupportedArgumentError
from relax_mlir.nn import op
from relax_mlir.nn.layers import GroupNorm, Linear, SiLU
from relax_mlir.nn.module import Module, ModuleList
from relax_mlir.nn.tensor import Tensor

__all__ = ["Attention", "TimestepEmbedding", "Timesteps"]


def _activation(name: str) -> SiLU:
    if name != "silu":
        raise UnsupportedArgumentError(f"activation `{name}`: expected `silu`")
    return SiLU()


class TimestepEmbedding(Module):
    """Two matrix products with an activation between them, for embedded times.

    Args:
        in_channels: size of the last dimension.
        time_embed_dim: that between the products.
        act_fn: the activation: ``silu``.
        out_dim: size of the last dimension of the result; ``time_embed_dim`` if none is
            given.
        post_act_fn: an activation at the end, or None.
        cond_proj_dim: size of a condition that is added at first, or None.

    Raises:
        NotImplementedError: there is no such activation.
    """

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = (
            None
            if cond_proj_dim is None
            else Linear(cond_proj_dim, in_channels, bias=False)
        )
        self.act = _activation(act_fn)
        self.linear_2 = Linear(
            time_embed_dim, time_embed_dim if out_dim is None else out_dim
        )
        self.post_act = None if post_act_fn is None else _activation(post_act_fn)

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """What it makes of ``sample``."""
        if condition is not None:
            if self.cond_proj is None:
                raise ValueError("`condition`: expected none without `cond_proj_dim`")
            sample = sample + self.cond_proj(condition)
        sample = self.linear_2(self.act(self.linear_1(sample)))
        return sample if self.post_act is None else self.post_act(sample)


class Timesteps(Module):
    """Sines and cosines of times; see :func:`relax_mlir.nn.op.get_timestep_embedding`.

    Args:
        num_channels: how many for each.
        flip_sin_to_cos: whether the cosines come first.
        downscale_freq_shift: how many steps fewer than frequencies there are.
    """

    def __init__(
        self,
        num_channels: int,
        flip_sin_to_cos: bool = False,
        downscale_freq_shift: float = 1,
    ) -> None:
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        return op.get_timestep_embedding(
            x,
            embedding_dim=self.num_channels,
            flip_sin_to_cos=self.flip_sin_to_cos,
            downscale_freq_shift=self.downscale_freq_shift,
        )


class Attention(Module):
    """Attention of several heads, with matrix products before and behind it.

    Args:
        query_dim: size of the last dimension.
        cross_attention_dim: that of what is attended to; ``query_dim`` if none is given.
        heads: how many heads.
        dim_head: the size of each.
        bias: whether the products before have biases.
        norm_num_groups: groups of a norm at first, or None for no norm.
        out_bias: whether the product behind has a bias.
        scale_qk: whether the products of queries and keys are divided by the root of
            ``dim_head``.
    """

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        self.query_dim = query_dim
        self.cross_attention_dim = cross_attention_dim or query_dim
        self.heads = heads
        self.dim_head = dim_head
        self.bias = bias
        self.norm_num_groups = norm_num_groups
        self.out_bias = out_bias
        self.scale_qk = scale_qk
        self.inner_dim = dim_head * heads
        self.to_q = Linear(query_dim, self.inner_dim, bias=bias)
        self.to_k = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.to_v = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.group_norm = (
            None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        )
        self.to_out = ModuleList([Linear(self.inner_dim, query_dim, bias=out_bias)])

    @property
    def scale(self) -> float | None:
        """The factor of the products; None for the one that the head's size gives."""
        return None if self.scale_qk else 1.0

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """What it makes of ``hidden_states``.

        Args:
            hidden_states: what asks.
            encoder_hidden_states: what is attended to; ``hidden_states`` if there is none.
            attention_mask: not supported.
            cross_attention_kwargs: accepted and without effect.

        Raises:
            NotImplementedError: there is an ``attention_mask``.
        """
        if attention_mask is not None:
            raise UnsupportedArgumentError("`attention_mask`: expected None")
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        query = self.to_q(hidden_states)
        if encoder_hidden_states is None:
            encoder_hidden_states = hidden_states
        key = self.to_k(encoder_hidden_states)
        value = self.to_v(encoder_hidden_states)
        shape = [0, -1, self.heads, self.dim_head]
        attended = op.scaled_dot_product_attention(
            op.reshape(query, shape),
            op.reshape(key, shape),
            op.reshape(value, shape),
            scale=self.scale,
        )
        attended = op.reshape(attended, (0, -1, self.inner_dim))
        return self.to_out[0](attended)
