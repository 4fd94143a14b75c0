"""Layers: activations, matrix products, norms, tables."""

from __future__ import annotations

from relax_mlir.nn import op
from relax_mlir.nn.module import Module
from relax_mlir.nn.tensor import Parameter, Tensor
from relax_mlir.objects.prim.terms import Term

__all__ = [
    "GELU",
    "Embedding",
    "GroupNorm",
    "Identity",
    "LayerNorm",
    "Linear",
    "RMSNorm",
    "ReLU",
    "SiLU",
    "Softmax",
]


class ReLU(Module):
    """The positive part of each element."""

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        return op.relu(x)


class SiLU(Module):
    """Each element times its sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        return op.silu(x)


class GELU(Module):
    """Each element times the normal distribution's probability of less than it."""

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        return op.gelu(x)


class Identity(Module):
    """What it is given."""

    def forward(self, x: Tensor) -> Tensor:
        """``x``."""
        return x


class Softmax(Module):
    """Exponentials along an axis, divided by their sum.

    Args:
        axis: along which.
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        return op.softmax(x, self.axis)


class Linear(Module):
    """A matrix product with a weight, and a bias.

    Args:
        in_features: size of the last dimension.
        out_features: size of the last dimension of the result.
        bias: whether there is a bias.
        dtype: element type of the parameters.
        out_dtype: element type of the product, and of the bias.
    """

    def __init__(
        self,
        in_features: Term | str,
        out_features: Term | str,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        x = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return x if self.bias is None else x + self.bias

    def to(self, dtype: str | None = None) -> None:
        """Change the element type; that of the bias stays ``out_dtype``, if there is one."""
        self.weight.to(dtype=dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype


class LayerNorm(Module):
    """The last dimension, brought to mean 0 and variance 1, then scaled and shifted.

    Args:
        normalized_shape: its size.
        eps: what is added to the variance.
        elementwise_affine: whether there are a weight and a bias.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        normalized_shape: int,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = (normalized_shape,)
        self.weight = Parameter(shape, dtype) if elementwise_affine else None
        self.bias = Parameter(shape, dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """The tensor, divided by the root of its mean square, then scaled.

    Args:
        hidden_size: size of the last dimension.
        axes: along which the mean is taken.
        epsilon: what is added to it.
        bias: whether a bias is added.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.axes = axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        out = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return out if self.bias is None else op.add(out, self.bias)


class GroupNorm(Module):
    """Groups of channels, brought to mean 0 and variance 1, then scaled and shifted.

    Args:
        num_groups: how many groups.
        num_channels: how many channels.
        eps: what is added to the variance.
        affine: whether there are a weight and a bias.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(
        self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None
    ) -> Tensor:
        """What it makes of ``x``."""
        return op.group_norm(
            x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes
        )


class Embedding(Module):
    """A row of a table for each number.

    Args:
        num: how many rows.
        dim: the size of a row.
        dtype: element type of the table.
    """

    def __init__(self, num: Term | str, dim: Term, dtype: str | None = None) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])
