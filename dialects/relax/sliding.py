"""Reductions over sliding windows: what poolings share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.windows import Window, onnx_window, taps
from relax_mlir.dialects.shapes import Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "POOL_CASES",
    "PoolOp",
    "lowest",
    "onnx_pool",
    "pool_cases",
    "pool_window",
    "pooled_shape",
    "reduce_windows",
    "window_elements",
    "windows_of",
]

POOL_CASES: Sequence[dict[str, Any]] = (
    {"shape": (1, 2, 7, 5), "pool_size": (3, 2)},
    {
        "shape": (2, 3, 8, 8),
        "pool_size": (3, 3),
        "strides": (2, 2),
        "padding": (1, 1, 1, 1),
    },
    {"shape": (1, 1, 7, 8), "pool_size": (2, 3), "strides": (2, 2), "ceil_mode": True},
    {
        "shape": (1, 2, 9, 7),
        "pool_size": (2, 3),
        "dilation": (3, 2),
        "padding": (1, 0, 0, 2),
    },
    {"shape": (2, 3, 17), "pool_size": (5,), "strides": (3,), "padding": (2, 1)},
    {"shape": (1, 1, 4, 5, 6), "pool_size": (2, 2, 3), "strides": (1, 2, 3)},
    {"shape": (0, 3, 5, 5), "pool_size": (2, 2)},
    {"shape": (1, 1, 1, 1), "pool_size": (1, 1)},
    {"shape": (1, 2, 6, 5, "float16"), "pool_size": (2, 2), "padding": (1, 1, 0, 0)},
    {
        "shape": (1, 2, 6, 5, "float64"),
        "pool_size": (3, 1),
        "ceil_mode": True,
        "strides": (2, 2),
    },
    {  # a window that would begin on the padding behind the data is none
        "shape": (1, 3, 2, 2),
        "pool_size": (3, 3),
        "strides": (3, 3),
        "padding": (1, 1, 1, 1),
        "ceil_mode": True,
    },
)


def pool_cases(rank: int | None = None, **attrs: Any) -> tuple[Case, ...]:
    """The cases of every pooling, with some more attributes; Any: of every kind.

    Args:
        rank: of how many spatial axes; None for any.
        **attrs: what is added.
    """
    common = [
        dict(case) for case in POOL_CASES if rank in (None, len(case["pool_size"]))
    ]
    return tuple(Case(case.pop("shape"), **case, **attrs) for case in common)


class PoolOp(Relax.Operation):
    """Base of poolings over sliding windows.

    Attributes:
        pool_size: elements of a window per spatial axis.
        strides, dilation: one number per spatial axis; none at all stands for 1s.
        padding: elements before every spatial axis, then after every one; none for 0s.
        ceil_mode: whether the last window may overhang the end of an axis.
    Shapes:
        data: [n, c, spatial...]; y: [n, c, windows...], by :func:`shapes.pool_output`.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    pool_size: DenseI64ArrayAttr
    strides: DenseI64ArrayAttr
    padding: DenseI64ArrayAttr
    dilation: DenseI64ArrayAttr
    ceil_mode: BoolAttr

    @staticmethod
    def infer(
        data: RankedTensorType, **attrs: Any
    ) -> Any:  # Any: some have two results
        shape = pooled_shape(tensors.shape_of(data), attrs)
        return tensors.tensor_type(shape, tensors.dtype_of(data))

    @classmethod
    def attribute_defaults(cls) -> Mapping[str, Any]:
        """Those of the window, and those that ``infer`` names."""
        own = super().attribute_defaults()
        return {"strides": (), "padding": (), "dilation": (), "ceil_mode": False, **own}


def pool_window(attrs: Mapping[str, Any]) -> Window:
    """Where the windows lie; Any: attributes of every kind."""
    names = ("pool_size", "strides", "padding", "dilation")
    return Window.of(*(attrs.get(n, ()) for n in names))


def pooled_shape(shape: Sequence[Any], attrs: Mapping[str, Any]) -> Shape:
    """[n, c, windows...]; Any: sizes, attributes of every kind.

    Raises:
        ValueError: the windows do not fit the shape.
    """
    rank = len(attrs["pool_size"])
    if len(shape) != rank + 2:
        raise ValueError(
            f"expected rank {rank + 2} for this pool_size, got {len(shape)}"
        )
    n, c, *sizes = shape
    ceil_mode = attrs.get("ceil_mode", False)
    return (n, c, *pool_window(attrs).pool_sizes(sizes, ceil_mode=ceil_mode))


def reduce_windows(
    b: Builder,
    x: Buffer,
    window: Window,
    shape: Sequence[Any],
    kind: str,
    fill: float,
    fn: Callable[[Scalar], Scalar] = lambda v: v,
    order: Sequence[int] | None = None,
) -> Buffer:
    """Combine ``fn`` of what every window reads.

    Args:
        b: writes it.
        x: [n, c, spatial...].
        window: where the windows lie.
        shape: [n, c, windows...]; Any: sizes.
        kind: of the reduction.
        fill: what is outside of x.
        fn: is applied to each element.
        order: which axis of ``shape`` every axis of the result is; None for the same.
    """
    type_ = b.results[0][1]
    rank = len(window.kernel)
    crossed = [
        i for i in range(rank) if window.crosses(i, x.shape[2 + i], shape[2 + i])
    ]
    order = range(rank + 2) if order is None else order

    def body(*axes: Index) -> Scalar:
        where = window_elements(window, axes)
        inside = [2 + i for i in crossed]
        value = read_padded(b, x, where, inside, b.constant(fill, type_))
        return fn(b.wide(value) if kind == "add" else value)

    return b.reduce_over(
        kind,
        [shape[axis] for axis in order],
        window.kernel,
        body,
        b.sum_dtype(type_) if kind == "add" else type_,
        "pool",
        spatial=shape,
        place=lambda *axes: tuple(axes[axis] for axis in order),
    )


def window_elements(window: Window, axes: Sequence[Index]) -> list[Index]:
    """The element of x at a point [n, c, windows..., taps...]."""
    rank = len(window.kernel)
    return [*axes[:2], *window.positions(axes[2 : 2 + rank], axes[2 + rank :])]


def windows_of(x: np.ndarray, fill: float, attrs: Mapping[str, Any]) -> np.ndarray:
    """What all windows read: [taps, n, c, windows...]; Any: attributes of every kind."""
    window = pool_window(attrs)
    sizes = window.counts(x.shape[2:], ceil_mode=attrs.get("ceil_mode", False))
    return np.stack([read for _, read in taps(x, window, sizes, fill)])


def lowest(type_: DType) -> float:
    """The least number of a type."""
    if type_.is_float:
        return -float("inf")
    return 0 if type_.kind in "ub" else -(1 << (type_.bits - 1))


def onnx_pool(
    node: OnnxNode, fill: float | None = None
) -> tuple[ir.Value, dict[str, Any]]:  # Any: attributes by name
    """The input and the window of a pooling node."""
    kernel = node.attr("kernel_shape")
    x, attrs = onnx_window(node, node.input(0), kernel, fill)
    ceil_mode = node.flag("ceil_mode", default=False)
    return x, {"pool_size": kernel, **attrs, "ceil_mode": ceil_mode}
