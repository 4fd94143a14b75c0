"""Windows of elements combined: pooling of fixed, of adaptive and of global windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.functions import div, indexdiv, indexmod, truncdiv
from relax_mlir.objects.prim import IterVar, PrimExpr, Select, const
from relax_mlir.objects.prim.terms import Term, Terms
from relax_mlir.te import Tensor
from relax_mlir.topi.nn.padding import pad_ends
from relax_mlir.topi.sizes import ceil_div, elements, equal_const_int, plain
from relax_mlir.topi.tag import ELEMWISE

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
    """Where the dimensions of the windows lie.

    Raises:
        ValueError: the layout has not all of them, or splits one.
    """
    axes = [c for c in layout if c.isalpha()]
    is_split = any(letter.lower() in axes for letter in letters)
    if is_split or any(axes.count(letter) != 1 for letter in letters):
        raise ValueError(f"layout `{layout}`: expected each of {letters} once, whole")
    return [axes.index(letter) for letter in letters]


def _checked_kind(pool_type: str) -> str:
    if pool_type not in ("avg", "max"):
        raise ValueError(f"pooling: expected `avg` or `max`, got `{pool_type}`")
    return pool_type


def _rule(name: str) -> Mapping[str, str]:
    return {"schedule_rule": f"meta_schedule.{name}"}


class _Windows:
    """The windows of a pooling.

    Args:
        data: what they lie on.
        axes: the dimensions that they have.
        kernel, strides, dilation: per dimension.
        padding: before all dimensions, then behind all.
        ceil_mode: whether the last window may overhang the end.
    """

    def __init__(
        self,
        data: Tensor,
        axes: Sequence[int],
        kernel: Sequence[Term],
        strides: Sequence[Term],
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
        self.extra = [s - 1 if ceil_mode else 0 for s in strides]
        pairs = zip(padding[rank:], self.extra, strict=True)
        self.after = [p + extra for p, extra in pairs]
        self.reduced = [te.reduce_axis((0, k), f"rv{i}") for i, k in enumerate(kernel)]

    @property
    def shape(self) -> list[Any]:
        """Of the result."""
        sizes = list(self.data.shape)
        for i, axis in enumerate(self.axes):
            whole = sizes[axis] + self.before[i] + self.after[i]
            room = whole - (self.kernel[i] - 1) * self.dilation[i] - 1
            count = indexdiv(room, self.strides[i]) + 1
            if self.is_ceil:
                # The last window begins inside the data or the padding before it.
                begin = sizes[axis] + self.before[i]
                count = functions.min(count, ceil_div(begin, self.strides[i]))
            sizes[axis] = plain(count)
        return sizes

    def padded(self, value: PrimExpr) -> Tensor:
        """The data with ``value`` around it."""
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
        """What ``reducer`` makes of the elements of every window."""

        def element(indices: tuple[Any, ...]) -> Any:
            places = list(indices)
            for i, axis in enumerate(self.axes):
                step = self.reduced[i].var * self.dilation[i]
                places[axis] = indices[axis] * self.strides[i] + step
            return reducer(data(*places), axis=self.reduced)

        return elements(self.shape, element, name, name, attrs)

    def count(self, indices: Sequence[Term], *, with_padding: bool) -> PrimExpr:
        """How many elements a window has."""
        total: PrimExpr = const(1)
        for i, axis in enumerate(self.axes):
            index, size = indices[axis], self.data.shape[axis]
            start = index * self.strides[i] - self.before[i]
            end = start + (self.kernel[i] - 1) * self.dilation[i]
            step = self.dilation[i]
            if with_padding:
                last = size + self.after[i] - 1 - self.extra[i]
                length = functions.min(end, last) - start
            else:
                skipped = functions.max(truncdiv(step - 1 - start, step), 0)
                length = functions.min(end, size - 1) - (start + step * skipped)
            total = total * (truncdiv(length, step) + 1)
        return total if with_padding else functions.max(total, 1)


def _pool(
    letters: str,
    data: Tensor,
    kernel: Terms,
    stride: Terms,
    dilation: Terms,
    padding: Terms | str,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
) -> Tensor:
    windows = _Windows(
        data,
        _axes(layout, letters),
        _listed(kernel),
        _listed(stride),
        _listed(dilation),
        _listed(padding),
        ceil_mode,
    )
    if _checked_kind(pool_type) == "max":
        padded = windows.padded(functions.min_value(data.dtype))
        return windows.reduce(functions.max, padded, "pool_max", _rule("pool_max"))
    padded = windows.padded(const(0, data.dtype))
    total = windows.reduce(functions.sum, padded, "pool_sum", None)
    return elements(
        windows.shape,
        lambda i: div(total(*i), windows.count(i, with_padding=count_include_pad)),
        "pool_avg",
        ELEMWISE,
        _rule("pool_avg"),
    )


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def pool1d(
    data: Tensor,
    kernel: Terms,
    stride: Terms,
    dilation: Terms,
    padding: Terms | str,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling over windows of one dimension, ``max`` or ``avg``."""
    return _pool(
        *("W", data, kernel, stride, dilation, padding),
        *(pool_type, ceil_mode, layout, count_include_pad),
    )


def pool2d(
    data: Tensor,
    kernel: Terms,
    stride: Terms,
    dilation: Terms,
    padding: Terms | str,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling over windows of two dimensions, ``max`` or ``avg``."""
    return _pool(
        *("HW", data, kernel, stride, dilation, padding),
        *(pool_type, ceil_mode, layout, count_include_pad),
    )


def pool3d(
    data: Tensor,
    kernel: Terms,
    stride: Terms,
    dilation: Terms,
    padding: Terms | str,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling over windows of three dimensions, ``max`` or ``avg``."""
    return _pool(
        *("DHW", data, kernel, stride, dilation, padding),
        *(pool_type, ceil_mode, layout, count_include_pad),
    )


def _adaptive(
    data: Tensor, output_size: Sequence[Term], pool_type: str, axes: Sequence[int]
) -> Tensor:
    """Pooling over as many windows as the result has elements."""
    shape = list(data.shape)
    if len(shape) <= max(axes) or len(output_size) != len(axes):
        raise ValueError(
            f"adaptive_pool: expected {len(axes)} sizes of dimensions {list(axes)} of the "
            f"data, got {list(output_size)} of a tensor of rank {len(shape)}"
        )
    for size, axis in zip(output_size, axes, strict=True):
        shape[axis] = prim.convert(size)

    def windows(indices: Sequence[Term]) -> tuple[list[Any], list[IterVar]]:
        places, reduced = list(indices), []
        for number, axis in enumerate(axes):
            whole, parts, index = data.shape[axis], shape[axis], indices[axis]
            start = indexdiv(index * whole, parts)
            behind = (index + 1) * whole
            end = indexdiv(behind, parts)
            fits = indexmod(behind, parts).equal(0)
            extent = Select(fits, end, end + 1) - start
            reduced.append(te.reduce_axis((0, extent), f"rv{number}"))
            places[axis] = start + reduced[-1].var
        return places, reduced

    def reduce(reducer: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
        def element(indices: tuple[Any, ...]) -> Any:
            places, reduced = windows(indices)
            return reducer(data(*places), axis=reduced)

        return element

    def mean(indices: tuple[Any, ...]) -> PrimExpr:
        count = const(1, data.dtype)
        for axis in windows(indices)[1]:
            extent = prim.cast("int32", axis.dom.extent)
            count = count * prim.cast(data.dtype, extent)
        return div(total(*indices), count)

    if _checked_kind(pool_type) == "max":
        name = "adaptive_pool_max"
        return elements(shape, reduce(functions.max), name, name, _rule(name))
    name = "adaptive_pool_sum"
    total = elements(shape, reduce(functions.sum), name, name)
    name = "adaptive_pool_avg"
    return elements(shape, mean, name, ELEMWISE, _rule(name))


def adaptive_pool(
    data: Tensor, output_size: Sequence[Term], pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """Pooling to a given height and width."""
    return _adaptive(data, _listed(output_size), pool_type, _axes(layout, "HW"))


def adaptive_pool1d(
    data: Tensor, output_size: Sequence[Term], pool_type: str, layout: str = "NCW"
) -> Tensor:
    """Pooling to a given width."""
    return _adaptive(data, _listed(output_size), pool_type, _axes(layout, "W"))


def adaptive_pool3d(
    data: Tensor, output_size: Sequence[Term], pool_type: str, layout: str = "NCDHW"
) -> Tensor:
    """Pooling to a given depth, height and width."""
    return _adaptive(data, _listed(output_size), pool_type, _axes(layout, "DHW"))


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling of whole images to one element."""
    return adaptive_pool(data, [1, 1], pool_type, layout)
