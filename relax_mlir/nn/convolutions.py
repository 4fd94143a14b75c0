"""Convolution layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from relax_mlir.nn import op
from relax_mlir.nn.module import Module
from relax_mlir.nn.tensor import Parameter, Tensor
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.terms import PrimExprLike, PrimExprLikes
from relax_mlir.tvm.topi.ranks import PositiveInt

__all__ = ["Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D"]


class _Convolution(Module):
    """Base of convolution layers.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: kernel sizes.
        stride: strides.
        padding: zero padding of the input.
        dilation: dilation of the kernel.
        groups: the number of channel groups.
    """

    def __init__(
        self,
        in_channels: PrimExprLike,
        out_channels: PrimExprLike,
        kernel_size: PrimExprLikes,
        stride: PrimExprLikes,
        padding: PrimExprLikes | str,
        dilation: PrimExprLikes,
        groups: PositiveInt,
    ) -> None:
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def _create_parameters(
        self, shape: Sequence[PrimExprLike], bias: bool, dtype: str | None
    ) -> None:
        self.weight = Parameter(shape, dtype)
        self.bias = Parameter((self.out_channels,), dtype) if bias else None


class Conv1D(_Convolution):
    """1D convolution.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: kernel size.
        stride: strides.
        padding: zero padding of the input.
        dilation: dilation of the kernel.
        groups: the number of channel groups.
        bias: whether the layer has a bias.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: PositiveInt = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups
        )
        self._create_parameters(
            (out_channels, in_channels // groups, kernel_size), bias, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.conv1d(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )


class Conv2D(_Convolution):
    """2D convolution.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: kernel sizes; one number for both.
        stride: strides.
        padding: zero padding of the input.
        dilation: dilation of the kernel.
        groups: the number of channel groups.
        bias: whether the layer has a bias.
        dtype: element type of the parameters.
        data_layout: layout of the input.
    """

    def __init__(
        self,
        in_channels: PrimExprLike,
        out_channels: PrimExprLike,
        kernel_size: PrimExprLikes,
        stride: PrimExprLikes = 1,
        padding: PrimExprLikes | str = 0,
        dilation: PrimExprLikes = 1,
        groups: PositiveInt = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCHW",
    ) -> None:
        window = _window(kernel_size, 2)
        super().__init__(
            in_channels, out_channels, window, stride, padding, dilation, groups
        )
        self.data_layout = data_layout
        self._create_parameters(
            (out_channels, in_channels // groups, *window), bias, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.conv2d(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.data_layout,
        )


class Conv3D(_Convolution):
    """3D convolution.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: kernel sizes; one number for all three.
        stride: strides.
        padding: zero padding of the input.
        dilation: dilation of the kernel.
        groups: the number of channel groups.
        bias: whether the layer has a bias.
        dtype: element type of the parameters.
        data_layout: layout of the input.
    """

    def __init__(
        self,
        in_channels: PrimExprLike,
        out_channels: PrimExprLike,
        kernel_size: PrimExprLikes,
        stride: PrimExprLikes = 1,
        padding: PrimExprLikes | str = 0,
        dilation: PrimExprLikes = 1,
        groups: PositiveInt = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCDHW",
    ) -> None:
        window = _window(kernel_size, 3)
        super().__init__(
            in_channels, out_channels, window, stride, padding, dilation, groups
        )
        self.data_layout = data_layout
        self._create_parameters(
            (out_channels, in_channels // groups, *window), bias, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.conv3d(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.data_layout,
        )


class ConvTranspose1D(_Convolution):
    """Transposed 1D convolution.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: kernel size.
        stride: strides.
        padding: elements cropped from both ends of the result.
        output_padding: elements added at the end of the result.
        dilation: dilation of the kernel.
        groups: the number of channel groups.
        bias: whether the layer has a bias.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        dilation: int = 1,
        groups: PositiveInt = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups
        )
        self.output_padding = output_padding
        self._create_parameters(
            (in_channels, out_channels // groups, kernel_size), bias, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``."""
        return op.conv1d_transpose(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
        )


def _window(kernel_size: PrimExprLikes, rank: int) -> list[Any]:
    if isinstance(kernel_size, Iterable) and not isinstance(kernel_size, PrimExpr):
        window = list(kernel_size)
    else:
        window = [kernel_size] * rank
    if len(window) != rank:
        raise ValueError(f"kernel_size: expected {rank} sizes, got {window}")
    return window
