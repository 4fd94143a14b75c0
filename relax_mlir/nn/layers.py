"""Layers: activations, linear layers, normalization, embeddings."""

from __future__ import annotations

from relax_mlir.nn import op
from relax_mlir.nn.module import Module
from relax_mlir.nn.tensor import Parameter, Tensor
from relax_mlir.objects.prim.terms import PrimExprLike

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
    """Rectified linear unit: max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.relu(x)


class SiLU(Module):
    """Sigmoid linear unit: x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.silu(x)


class GELU(Module):
    """Gaussian error linear unit, by the error function."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.gelu(x)


class Identity(Module):
    """The identity function."""

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``."""
        return x


class Softmax(Module):
    """Softmax along an axis.

    Args:
        axis: the axis.
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.softmax(x, self.axis)


class Linear(Module):
    """Linear layer: x @ weight^T + bias.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the result.
        bias: whether the layer has a bias.
        dtype: element type of the parameters.
        out_dtype: element type of the matmul's result and of the bias.
    """

    def __init__(
        self,
        in_features: PrimExprLike | str,
        out_features: PrimExprLike | str,
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
        """Apply the layer to ``x``."""
        x = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return x if self.bias is None else x + self.bias

    def to(self, dtype: str | None = None) -> None:
        """Change the element type; the bias keeps ``out_dtype``, if that is set."""
        self.weight.to(dtype=dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype


class LayerNorm(Module):
    """Layer normalization over the last dimension.

    Args:
        normalized_shape: size of the last dimension.
        eps: added to the variance.
        elementwise_affine: whether the layer has a weight and a bias.
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
        """Apply the layer to ``x``."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """RMS normalization.

    Args:
        hidden_size: size of the last dimension.
        axes: the normalized axes.
        epsilon: added to the mean square.
        bias: whether the layer has a bias.
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
        """Apply the layer to ``x``."""
        out = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return out if self.bias is None else op.add(out, self.bias)


class GroupNorm(Module):
    """Group normalization.

    Args:
        num_groups: the number of groups.
        num_channels: the number of channels.
        eps: added to the variance.
        affine: whether the layer has a weight and a bias.
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
        """Apply the layer to ``x``."""
        return op.group_norm(
            x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes
        )


class Embedding(Module):
    """Embedding table.

    Args:
        num: the number of rows.
        dim: the embedding size.
        dtype: element type of the table.
    """

    def __init__(
        self, num: PrimExprLike | str, dim: PrimExprLike, dtype: str | None = None
    ) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])
