"""Max and average pooling: with windows, adaptive and global."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Select, const, intrinsics
from relax_mlir.objects.prim.intrinsics import div, indexdiv, indexmod, truncdiv
from relax_mlir.objects.prim.terms import PrimExprLike, PrimExprLikes
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.nn.padding import pad_ends
from relax_mlir.tvm.topi.sizes import (
    ceil_div,
    compute_tensor,
    equal_const_int,
    simplified,
)
from relax_mlir.tvm.topi.tag import ELEMWISE

__all__ = [
    "adaptive_pool",
    "adaptive_pool1d",
    "adaptive_pool3d",
    "global_pool",
    "pool1d",
    "pool2d",
    "pool3d",
]


def _axes(layout: str, letters: str) -> list[int]:
    """Positions of the pooled dimensions in a layout.

    Raises:
        ValueError: the layout lacks one of them, or blocks one.
    """
    axes = [c for c in layout if c.isalpha()]
    is_blocked = any(letter.lower() in axes for letter in letters)
    if is_blocked or any(axes.count(letter) != 1 for letter in letters):
        raise ValueError(
            f"layout `{layout}`: expected each of {letters} once, and not blocked"
        )
    return [axes.index(letter) for letter in letters]


def _checked_pool_type(pool_type: str) -> str:
    if pool_type not in ("avg", "max"):
        raise ValueError(f"pooling: expected `avg` or `max`, got `{pool_type}`")
    return pool_type


def _schedule_rule(name: str) -> Mapping[str, str]:
    return {"schedule_rule": f"meta_schedule.{name}"}


class _Windows:
    """Pooling windows over a tensor.

    Args:
        data: the tensor.
        axes: the pooled dimensions.
        kernel, strides, dilation: window sizes, strides and dilations, per axis.
        padding: padding before all axes, then after all axes.
        ceil_mode: whether the number of windows is rounded up.
    """

    def __init__(
        self,
        data: Tensor,
        axes: Sequence[int],
        kernel: Sequence[PrimExprLike],
        strides: Sequence[PrimExprLike],
        dilation: Sequence[Any],
        padding: Sequence[Any],
        ceil_mode: bool,
    ) -> None:
        rank = len(axes)
        lengths = [len(part) for part in (kernel, strides, dilation)]
        if lengths != [rank] * 3 or len(padding) != 2 * rank:
            raise ValueError(
                f"pooling: expected {rank} sizes, strides and dilations and {2 * rank} "
                f"paddings, got {lengths} and {len(padding)}"
            )
        self.data, self.axes, self.is_ceil = data, axes, ceil_mode
        self.kernel, self.strides, self.dilation = kernel, strides, dilation
        self.before = list(padding[:rank])
        self.ceil_padding = [s - 1 if ceil_mode else 0 for s in strides]
        pairs = zip(padding[rank:], self.ceil_padding, strict=True)
        self.after = [p + ceil_padding for p, ceil_padding in pairs]
        self.reduced = [te.reduce_axis((0, k), f"rv{i}") for i, k in enumerate(kernel)]

    @property
    def shape(self) -> list[Any]:
        """Shape of the result."""
        sizes = list(self.data.shape)
        for i, axis in enumerate(self.axes):
            padded_size = sizes[axis] + self.before[i] + self.after[i]
            last_start = padded_size - (self.kernel[i] - 1) * self.dilation[i] - 1
            count = indexdiv(last_start, self.strides[i]) + 1
            if self.is_ceil:
                # The last window must start inside the data or the padding before it.
                begin = sizes[axis] + self.before[i]
                count = intrinsics.min(count, ceil_div(begin, self.strides[i]))
            sizes[axis] = simplified(count)
        return sizes

    def padded(self, value: PrimExpr) -> Tensor:
        """The data, padded with ``value``."""
        if all(equal_const_int(p, 0) for p in (*self.before, *self.after)):
            return self.data
        before, after = [0] * self.data.ndim, [0] * self.data.ndim
        for i, axis in enumerate(self.axes):
            before[axis], after[axis] = self.before[i], self.after[i]
        return pad_ends(self.data, before, after, value, "pad_temp")

    def reduce(
        self,
        reducer: Callable[..., Any],
        data: Tensor,
        name: str,
        attrs: Mapping[str, str] | None,
    ) -> Tensor:
        """Reduce every window."""

        def element(indices: tuple[Any, ...]) -> Any:
            source = list(indices)
            for i, axis in enumerate(self.axes):
                step = self.reduced[i].var * self.dilation[i]
                source[axis] = indices[axis] * self.strides[i] + step
            return reducer(data(*source), axis=self.reduced)

        return compute_tensor(self.shape, element, name, name, attrs)

    def count(self, indices: Sequence[PrimExprLike], *, with_padding: bool) -> PrimExpr:
        """Number of elements of a window, with or without those in the padding."""
        total: PrimExpr = const(1)
        for i, axis in enumerate(self.axes):
            index, size = indices[axis], self.data.shape[axis]
            start = index * self.strides[i] - self.before[i]
            end = start + (self.kernel[i] - 1) * self.dilation[i]
            step = self.dilation[i]
            if with_padding:
                last = size + self.after[i] - 1 - self.ceil_padding[i]
                length = intrinsics.min(end, last) - start
            else:
                skipped = intrinsics.max(truncdiv(step - 1 - start, step), 0)
                length = intrinsics.min(end, size - 1) - (start + step * skipped)
            total = total * (truncdiv(length, step) + 1)
        return total if with_padding else intrinsics.max(total, 1)


def _pool(
    letters: str,
    data: Tensor,
    kernel: PrimExprLikes,
    stride: PrimExprLikes,
    dilation: PrimExprLikes,
    padding: PrimExprLikes | str,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
) -> Tensor:
    windows = _Windows(
        data,
        _axes(layout, letters),
        _as_list(kernel),
        _as_list(stride),
        _as_list(dilation),
        _as_list(padding),
        ceil_mode,
    )
    if _checked_pool_type(pool_type) == "max":
        padded = windows.padded(intrinsics.min_value(data.dtype))
        return windows.reduce(
            intrinsics.max, padded, "pool_max", _schedule_rule("pool_max")
        )
    padded = windows.padded(const(0, data.dtype))
    total = windows.reduce(intrinsics.sum, padded, "pool_sum", None)
    return compute_tensor(
        windows.shape,
        lambda i: div(total(*i), windows.count(i, with_padding=count_include_pad)),
        "pool_avg",
        ELEMWISE,
        _schedule_rule("pool_avg"),
    )


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def pool1d(
    data: Tensor,
    kernel: PrimExprLikes,
    stride: PrimExprLikes,
    dilation: PrimExprLikes,
    padding: PrimExprLikes | str,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """1-D ``max`` or ``avg`` pooling."""
    return _pool(
        *("W", data, kernel, stride, dilation, padding),
        *(pool_type, ceil_mode, layout, count_include_pad),
    )


def pool2d(
    data: Tensor,
    kernel: PrimExprLikes,
    stride: PrimExprLikes,
    dilation: PrimExprLikes,
    padding: PrimExprLikes | str,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """2-D ``max`` or ``avg`` pooling."""
    return _pool(
        *("HW", data, kernel, stride, dilation, padding),
        *(pool_type, ceil_mode, layout, count_include_pad),
    )


def pool3d(
    data: Tensor,
    kernel: PrimExprLikes,
    stride: PrimExprLikes,
    dilation: PrimExprLikes,
    padding: PrimExprLikes | str,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """3-D ``max`` or ``avg`` pooling."""
    return _pool(
        *("DHW", data, kernel, stride, dilation, padding),
        *(pool_type, ceil_mode, layout, count_include_pad),
    )


def _adaptive(
    data: Tensor,
    output_size: Sequence[PrimExprLike],
    pool_type: str,
    axes: Sequence[int],
) -> Tensor:
    """Adaptive pooling: divides every axis into one window per output element."""
    shape = list(data.shape)
    if len(shape) <= max(axes) or len(output_size) != len(axes):
        raise ValueError(
            f"adaptive_pool: expected {len(axes)} output sizes for dimensions {list(axes)}, "
            f"got {list(output_size)} for a tensor of rank {len(shape)}"
        )
    for size, axis in zip(output_size, axes, strict=True):
        shape[axis] = prim.convert(size)

    def windows(indices: Sequence[PrimExprLike]) -> tuple[list[Any], list[IterVar]]:
        source, reduced = list(indices), []
        for number, axis in enumerate(axes):
            in_size, out_size, index = data.shape[axis], shape[axis], indices[axis]
            start = indexdiv(index * in_size, out_size)
            scaled_end = (index + 1) * in_size
            end = indexdiv(scaled_end, out_size)
            is_exact = indexmod(scaled_end, out_size).equal(0)
            extent = Select(is_exact, end, end + 1) - start
            reduced.append(te.reduce_axis((0, extent), f"rv{number}"))
            source[axis] = start + reduced[-1].var
        return source, reduced

    def reduce(reducer: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
        def element(indices: tuple[Any, ...]) -> Any:
            source, reduced = windows(indices)
            return reducer(data(*source), axis=reduced)

        return element

    def mean(indices: tuple[Any, ...]) -> PrimExpr:
        count = const(1, data.dtype)
        for axis in windows(indices)[1]:
            extent = prim.cast("int32", axis.dom.extent)
            count = count * prim.cast(data.dtype, extent)
        return div(total(*indices), count)

    if _checked_pool_type(pool_type) == "max":
        name = "adaptive_pool_max"
        return compute_tensor(
            shape, reduce(intrinsics.max), name, name, _schedule_rule(name)
        )
    name = "adaptive_pool_sum"
    total = compute_tensor(shape, reduce(intrinsics.sum), name, name)
    name = "adaptive_pool_avg"
    return compute_tensor(shape, mean, name, ELEMWISE, _schedule_rule(name))


def adaptive_pool(
    data: Tensor,
    output_size: Sequence[PrimExprLike],
    pool_type: str,
    layout: str = "NCHW",
) -> Tensor:
    """Adaptive 2-D pooling to a given height and width."""
    return _adaptive(data, _as_list(output_size), pool_type, _axes(layout, "HW"))


def adaptive_pool1d(
    data: Tensor,
    output_size: Sequence[PrimExprLike],
    pool_type: str,
    layout: str = "NCW",
) -> Tensor:
    """Adaptive 1-D pooling to a given width."""
    return _adaptive(data, _as_list(output_size), pool_type, _axes(layout, "W"))


def adaptive_pool3d(
    data: Tensor,
    output_size: Sequence[PrimExprLike],
    pool_type: str,
    layout: str = "NCDHW",
) -> Tensor:
    """Adaptive 3-D pooling to a given depth, height and width."""
    return _adaptive(data, _as_list(output_size), pool_type, _axes(layout, "DHW"))


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Global pooling: reduces every channel to one element."""
    return adaptive_pool(data, [1, 1], pool_type, layout)
