"""Shape arithmetic of sliding windows: convolution, pooling and automatic padding."""

from typing import Literal, TypeAlias

from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.constraints import require_at_least
from relax_mlir.symbolic.dims import Dim, ceildiv, floordiv, maximum, minimum

__all__ = ["AutoPad", "auto_pad", "conv_output", "conv_transpose_output", "pool_output"]

AutoPad: TypeAlias = Literal["SAME_UPPER", "SAME_LOWER", "VALID"]


def conv_output(
    size: Dim, kernel: Dim, stride: int, dilation: int, pad_begin: Dim, pad_end: Dim
) -> Dim:
    """Output size of a convolution along one spatial axis.

    A symbolic input is constrained to be no smaller than the window.

    Raises:
        ValueError: a stride or dilation is below 1, or the window does not fit.

    Source: ONNX Conv-11.
    """
    window = _window(kernel, stride, dilation)
    return floordiv(_spare(pad_begin + size + pad_end, window), stride) + 1


def pool_output(
    size: Dim,
    kernel: Dim,
    stride: int,
    dilation: int,
    pad_begin: Dim,
    pad_end: Dim,
    ceil_mode: bool,
) -> Dim:
    """Output size of pooling along one spatial axis.

    With ``ceil_mode`` the last window may extend beyond the padded input; it must start
    inside the input or the padding before it.

    Raises:
        ValueError: a stride or dilation is below 1, or the window does not fit.

    Source: ONNX MaxPool-22 and AveragePool-22; earlier versions leave this open.
    """
    if not ceil_mode:
        return conv_output(size, kernel, stride, dilation, pad_begin, pad_end)
    window = _window(kernel, stride, dilation)
    windows = ceildiv(_spare(pad_begin + size + pad_end, window), stride) + 1
    return minimum(windows, ceildiv(pad_begin + size, stride))


def conv_transpose_output(
    size: Dim,
    kernel: Dim,
    stride: int,
    dilation: int,
    pads: tuple[Dim, Dim],
    output_padding: int,
) -> Dim:
    """Output size of a transposed convolution along one spatial axis.

    Raises:
        ValueError: a stride or dilation is below 1, or the pads remove everything.

    Source: ONNX ConvTranspose-11.
    """
    window = _window(kernel, stride, dilation)
    result = stride * (size - 1) + output_padding + window - pads[0] - pads[1]
    if isinstance(result, int) and result < 0:
        raise ValueError(
            f"pads remove too much: expected 0 or more elements, got {result}"
        )
    require_at_least(result, 0)
    return result


def auto_pad(
    size: Dim, kernel: Dim, stride: int, dilation: int, mode: AutoPad
) -> tuple[Dim, Dim]:
    """Padding before and after that gives ``ceildiv(size, stride)`` outputs; 0 for VALID.

    An odd element of padding goes to the end (SAME_UPPER) or the beginning
    (SAME_LOWER).

    Raises:
        ValueError: ``mode`` is none of the three, or a stride or dilation is below 1.

    Source: ONNX Conv-11, ``auto_pad``.
    """
    window = _window(kernel, stride, dilation)
    if mode == "VALID":
        return 0, 0
    total = maximum(0, (ceildiv(size, stride) - 1) * stride + window - size)
    half = floordiv(total, 2)
    if mode == "SAME_UPPER":
        return half, total - half
    if mode == "SAME_LOWER":
        return total - half, half
    raise ValueError(
        f"bad auto_pad: expected SAME_UPPER, SAME_LOWER or VALID, got {mode!r}"
    )


def _window(kernel: Dim, stride: int, dilation: int) -> Dim:
    """The extent of a dilated window: ``dilation * (kernel - 1) + 1``."""
    if stride < 1 or dilation < 1:
        got = f"{stride} and {dilation}"
        raise ValueError(f"bad stride or dilation: expected 1 or more, got {got}")
    return dilation * (kernel - 1) + 1


def _spare(padded: Dim, window: Dim) -> Dim:
    spare = padded - window
    if is_known_le(spare, -1):
        raise ValueError(
            f"window does not fit: expected {window} elements, got {padded}"
        )
    require_at_least(padded, window)
    return spare
