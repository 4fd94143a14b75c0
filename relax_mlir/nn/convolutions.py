"""Convolutions as layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from relax_mlir.nn import op
from relax_mlir.nn.module import Module
from relax_mlir.nn.tensor import Parameter, Tensor
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.terms import Term, Terms
from relax_mlir.topi.ranks import Positive

__all__ = ["Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D"]


class _Convolution(Module):
    """What all convolutions hold.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: sizes of the window.
        stride: steps of the window.
        padding: zeros around the input.
        dilation: distance of the window's elements.
        groups: into how many parts the channels fall.
    """

    def __init__(
        self,
        in_channels: Term,
        out_channels: Term,
        kernel_size: Terms,
        stride: Terms,
        padding: Terms | str,
        dilation: Terms,
        groups: Positive,
    ) -> None:
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def _hold(self, shape: Sequence[Term], bias: bool, dtype: str | None) -> None:
        self.weight = Parameter(shape, dtype)
        self.bias = Parameter((self.out_channels,), dtype) if bias else None


class Conv1D(_Convolution):
    """A convolution of vectors.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: steps of the window.
        padding: zeros around the input.
        dilation: distance of the window's elements.
        groups: into how many parts the channels fall.
        bias: whether there is a bias.
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
        groups: Positive = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups
        )
        self._hold((out_channels, in_channels // groups, kernel_size), bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
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
    """A convolution of images.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: sizes of the window; one number for both.
        stride: steps of the window.
        padding: zeros around the input.
        dilation: distance of the window's elements.
        groups: into how many parts the channels fall.
        bias: whether there is a bias.
        dtype: element type of the parameters.
        data_layout: order of the input's dimensions.
    """

    def __init__(
        self,
        in_channels: Term,
        out_channels: Term,
        kernel_size: Terms,
        stride: Terms = 1,
        padding: Terms | str = 0,
        dilation: Terms = 1,
        groups: Positive = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCHW",
    ) -> None:
        window = _window(kernel_size, 2)
        super().__init__(
            in_channels, out_channels, window, stride, padding, dilation, groups
        )
        self.data_layout = data_layout
        self._hold((out_channels, in_channels // groups, *window), bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
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
    """A convolution of volumes.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: sizes of the window; one number for all three.
        stride: steps of the window.
        padding: zeros around the input.
        dilation: distance of the window's elements.
        groups: into how many parts the channels fall.
        bias: whether there is a bias.
        dtype: element type of the parameters.
        data_layout: order of the input's dimensions.
    """

    def __init__(
        self,
        in_channels: Term,
        out_channels: Term,
        kernel_size: Terms,
        stride: Terms = 1,
        padding: Terms | str = 0,
        dilation: Terms = 1,
        groups: Positive = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCDHW",
    ) -> None:
        window = _window(kernel_size, 3)
        super().__init__(
            in_channels, out_channels, window, stride, padding, dilation, groups
        )
        self.data_layout = data_layout
        self._hold((out_channels, in_channels // groups, *window), bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
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
    """A transposed convolution of vectors.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: steps of the window.
        padding: what is cut from the result.
        output_padding: what is added to one side of it.
        dilation: distance of the window's elements.
        groups: into how many parts the channels fall.
        bias: whether there is a bias.
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
        groups: Positive = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups
        )
        self.output_padding = output_padding
        self._hold((in_channels, out_channels // groups, kernel_size), bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """What it makes of ``x``."""
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


def _window(kernel_size: Terms, rank: int) -> list[Any]:
    if isinstance(kernel_size, Iterable) and not isinstance(kernel_size, PrimExpr):
        window = list(kernel_size)
    else:
        window = [kernel_size] * rank
    if len(window) != rank:
        raise ValueError(f"kernel_size: expected {rank} sizes, got {window}")
    return window
