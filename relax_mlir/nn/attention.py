"""Attention layer and timestep embeddings."""

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
    """Two-layer MLP for timestep embeddings.

    Args:
        in_channels: size of the last dimension of the input.
        time_embed_dim: size of the hidden layer.
        act_fn: the activation function, ``silu``.
        out_dim: size of the last dimension of the result; ``time_embed_dim`` by default.
        post_act_fn: a final activation function, or None.
        cond_proj_dim: size of a condition that is projected and added to the input, or
            None.

    Raises:
        NotImplementedError: the activation function is unknown.
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
        """Apply the layer to ``sample``."""
        if condition is not None:
            if self.cond_proj is None:
                raise ValueError("`condition`: expected none without `cond_proj_dim`")
            sample = sample + self.cond_proj(condition)
        sample = self.linear_2(self.act(self.linear_1(sample)))
        return sample if self.post_act is None else self.post_act(sample)


class Timesteps(Module):
    """Sinusoidal timestep embedding; see :func:`relax_mlir.nn.op.layers.get_timestep_embedding`.

    Args:
        num_channels: size of the embedding.
        flip_sin_to_cos: whether the cosines come first.
        downscale_freq_shift: subtracted from the number of frequencies in the exponent.
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
        """Apply the layer to ``x``."""
        return op.get_timestep_embedding(
            x,
            embedding_dim=self.num_channels,
            flip_sin_to_cos=self.flip_sin_to_cos,
            downscale_freq_shift=self.downscale_freq_shift,
        )


class Attention(Module):
    """Multi-head attention with input and output projections.

    Args:
        query_dim: size of the last dimension of the queries.
        cross_attention_dim: that of keys and values; ``query_dim`` by default.
        heads: the number of heads.
        dim_head: the head size.
        bias: whether the input projections have biases.
        norm_num_groups: the number of groups of a group norm on the input, or None.
        out_bias: whether the output projection has a bias.
        scale_qk: whether scores are scaled by 1 / sqrt(dim_head).
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
        """The scale of scores; None for 1 / sqrt(dim_head)."""
        return None if self.scale_qk else 1.0

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """Apply the layer to ``hidden_states``.

        Args:
            hidden_states: the source of queries.
            encoder_hidden_states: the source of keys and values; ``hidden_states`` by
                default.
            attention_mask: not supported.
            cross_attention_kwargs: ignored.

        Raises:
            NotImplementedError: ``attention_mask`` is given.
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
        output = op.scaled_dot_product_attention(
            op.reshape(query, shape),
            op.reshape(key, shape),
            op.reshape(value, shape),
            scale=self.scale,
        )
        output = op.reshape(output, (0, -1, self.inner_dim))
        return self.to_out[0](output)
