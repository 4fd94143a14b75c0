"""Reductions over sliding windows, shared by the pooling operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.window_attributes import (
    SlidingWindow,
    kernel_taps,
    onnx_window,
)
from relax_mlir.dialects.shapes import Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "POOL_CASES",
    "PoolOp",
    "extract_windows",
    "lowest_number",
    "onnx_pool",
    "pool_cases",
    "pool_window",
    "pooled_shape",
    "reduce_windows",
    "window_indices",
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
    {  # a window that would start in the trailing padding does not count
        "shape": (1, 3, 2, 2),
        "pool_size": (3, 3),
        "strides": (3, 3),
        "padding": (1, 1, 1, 1),
        "ceil_mode": True,
    },
)


def pool_cases(rank: int | None = None, **attrs: Any) -> tuple[Case, ...]:
    """Test cases shared by the pooling operators.

    Args:
        rank: number of spatial axes; None for any.
        **attrs: further attributes of the operator; Any: of every kind.
    """
    common = [
        dict(case) for case in POOL_CASES if rank in (None, len(case["pool_size"]))
    ]
    return tuple(Case(case.pop("shape"), **case, **attrs) for case in common)


class PoolOp(Relax.Operation):
    """Base of the pooling operators over sliding windows.

    Attributes:
        pool_size: window size per spatial axis.
        strides, dilation: one number per spatial axis; empty for 1s.
        padding: padding before every spatial axis, then after every one; empty for 0s.
        ceil_mode: whether the last window may extend beyond the padded input.
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
        """Defaults of the window attributes and of those that ``infer`` names."""
        own = super().attribute_defaults()
        return {"strides": (), "padding": (), "dilation": (), "ceil_mode": False, **own}


def pool_window(attrs: Mapping[str, Any]) -> SlidingWindow:
    """The window described by pooling attributes; Any: of every kind."""
    names = ("pool_size", "strides", "padding", "dilation")
    return SlidingWindow.of(*(attrs.get(n, ()) for n in names))


def pooled_shape(shape: Sequence[Any], attrs: Mapping[str, Any]) -> Shape:
    """The shape [n, c, windows...] of pooling; Any: sizes, attributes of every kind.

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
    window: SlidingWindow,
    shape: Sequence[Any],
    kind: str,
    fill: float,
    fn: Callable[[Scalar], Scalar] = lambda v: v,
    order: Sequence[int] | None = None,
) -> Buffer:
    """Reduces ``fn`` of the elements of every window.

    Args:
        b: the builder.
        x: the input, [n, c, spatial...].
        window: the sliding window.
        shape: [n, c, windows...]; Any: sizes.
        kind: kind of the reduction.
        fill: value of the padding.
        fn: applied to each element.
        order: the permutation from ``shape`` to the result; None for the identity.
    """
    type_ = b.results[0][1]
    rank = len(window.kernel)
    crossed = [
        i for i in range(rank) if window.crosses(i, x.shape[2 + i], shape[2 + i])
    ]
    order = range(rank + 2) if order is None else order

    def body(*axes: Index) -> Scalar:
        where = window_indices(window, axes)
        inside = [2 + i for i in crossed]
        value = read_padded(b, x, where, inside, b.constant(fill, type_))
        return fn(b.widen(value) if kind == "add" else value)

    return b.reduce_over(
        kind,
        [shape[axis] for axis in order],
        window.kernel,
        body,
        b.accumulator_dtype(type_) if kind == "add" else type_,
        "pool",
        spatial=shape,
        access_map=lambda *axes: tuple(axes[axis] for axis in order),
    )


def window_indices(window: SlidingWindow, axes: Sequence[Index]) -> list[Index]:
    """The indices of x that the point [n, c, windows..., taps...] reads."""
    rank = len(window.kernel)
    return [*axes[:2], *window.positions(axes[2 : 2 + rank], axes[2 + rank :])]


def extract_windows(x: np.ndarray, fill: float, attrs: Mapping[str, Any]) -> np.ndarray:
    """The elements of all windows, [taps, n, c, windows...] (im2col)."""
    window = pool_window(attrs)
    sizes = window.counts(x.shape[2:], ceil_mode=attrs.get("ceil_mode", False))
    return np.stack([read for _, read in kernel_taps(x, window, sizes, fill)])


def lowest_number(type_: DType) -> float:
    """The lowest number of a type, -inf for floats: the identity of max."""
    if type_.is_float:
        return -float("inf")
    return 0 if type_.kind in "ub" else -(1 << (type_.bits - 1))


def onnx_pool(
    node: OnnxNode, fill: float | None = None
) -> tuple[ir.Value, dict[str, Any]]:  # Any: attributes by name
    """The (possibly padded) input and the window attributes of an ONNX pooling node."""
    kernel = node.attr("kernel_shape")
    x, attrs = onnx_window(node, node.input(0), kernel, fill)
    ceil_mode = node.flag("ceil_mode", default=False)
    return x, {"pool_size": kernel, **attrs, "ceil_mode": ceil_mode}
