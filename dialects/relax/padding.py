"""Padding and cropping."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Literal

import numpy as np
from mlir.ir import FloatAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["PadOp", "indices_in_range", "pad_widths", "read_padded"]

_MODES = ("constant", "reflect", "replicate", "circular")


class PadOp(Relax.Operation, name="nn_pad"):
    """Padding along every axis; negative widths crop.

    Attributes:
        pad_width: padding before the first axis, after it, before the second, and so on;
            may be symbolic.
        pad_mode: ``constant``; ``reflect``, mirrored at the edge elements, which are not
            repeated; ``replicate``, the edge elements repeated; ``circular``, wrapped
            around. Only ``constant`` supports negative widths.
        pad_value: the constant.
    Shapes:
        data: any rank and element type; y: the sizes of data plus the widths.
    Source: ONNX Pad-19.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    pad_width: Attr
    pad_mode: StringAttr
    pad_value: FloatAttr

    cases = (
        Case((3, 5), pad_width=(1, 0, 2, 3), pad_value=1.5),
        Case((5,), pad_width=(-1, -2)),
        Case((4, 5), pad_width=(2, -3, -1, 1), pad_value=-1.0),
        Case((0, 2), pad_width=(1, 1, 0, 0), pad_value=3.0),
        Case((1, 2, 5, 7), pad_width=(0, 0, 0, 0, 2, 2, 1, 1)),
        Case((3, "int64"), pad_width=(1, 1), pad_value=-7.0, low=-9, high=9),
        Case((3, "bool"), pad_width=(2, 0), pad_value=1.0),
        Case((3, 4), pad_width=(2, 1, 0, 3), pad_mode="reflect"),
        Case((3,), pad_width=(7, 9), pad_mode="reflect"),
        Case((1, 2), pad_width=(2, 2, 1, 1), pad_mode="reflect"),
        Case((3, 4), pad_width=(2, 0, 5, 3), pad_mode="replicate"),
        Case(
            (3, 4, "int32"), pad_width=(2, 0, 5, 9), pad_mode="circular", low=-9, high=9
        ),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        pad_width: Sequence[Dim],
        pad_mode: str = "constant",
        pad_value: float = 0.0,
    ) -> RankedTensorType:
        if pad_mode not in _MODES:
            raise ValueError(
                f"bad pad_mode: expected {', '.join(_MODES)}, got `{pad_mode}`"
            )
        shape = tensors.shape_of(data)
        pads = (*pad_width[::2], *pad_width[1::2])
        padded = shapes.pad_shape(shape, pads)
        if pad_mode != "constant":
            _check_copies(shape, pads)
        return tensors.tensor_type(padded, tensors.dtype_of(data))

    @staticmethod
    def reference(
        data: np.ndarray,
        pad_width: Sequence[int],
        pad_mode: str = "constant",
        pad_value: float = 0.0,
    ) -> np.ndarray:
        pairs = list(zip(pad_width[::2], pad_width[1::2], strict=True))
        added = [(max(0, before), max(0, after)) for before, after in pairs]
        if pad_mode == "constant":
            fill = data.dtype.type(pad_value)
            data = np.pad(data, added, constant_values=fill)
        else:
            data = np.pad(data, added, mode=_NUMPY_MODES[pad_mode])
        cropped = tuple(
            slice(max(0, -b), n + min(0, a))
            for n, (b, a) in zip(data.shape, pairs, strict=True)
        )
        return np.ascontiguousarray(data[cropped])

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.data)
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        before = [b.local_dim(pad) for pad in attrs["pad_width"][::2]]
        padded = [
            axis
            for axis in range(x.rank)
            if x.shape[axis] != shape[axis] or before[axis] != 0
        ]
        if attrs["pad_mode"] == "constant":
            return _pad_constant(b, x, before, padded, attrs["pad_value"])
        source_index = _SOURCE_INDEX[attrs["pad_mode"]]

        def body(*axes: Index) -> Scalar:
            where: list[Index | int] = list(axes)
            for axis in padded:
                where[axis] = source_index(b, axes[axis], before[axis], x.shape[axis])
            return x[tuple(where)]

        return b.compute(shape, body, dtype, "pad")


_NUMPY_MODES: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def pad_widths(pads: Sequence[Dim]) -> tuple[Dim, ...]:
    """Converts ONNX pads (all begins, then all ends) to (begin, end) pairs per axis."""
    half, rest = divmod(len(pads), 2)
    if rest:
        raise ValueError(f"pads: expected two for each axis, got {len(pads)}")
    return tuple(
        width for pair in zip(pads[:half], pads[half:], strict=True) for width in pair
    )


def _check_copies(shape: Sequence[Dim], pads: Sequence[Dim]) -> None:
    """Checks that modes that copy elements have elements to copy, and no negative pads."""
    if any(shapes.is_known_le(pad, -1) for pad in pads):
        raise ValueError(f"negative pads need mode `constant`, got {list(pads)}")
    for axis, size in enumerate(shape):
        if pads[axis] == 0 and pads[len(shape) + axis] == 0:
            continue
        if size == 0:
            raise ValueError(f"axis {axis} has no elements to copy into its padding")
        shapes.require_at_least(size, 1)


def _pad_constant(
    b: Builder, x: Buffer, before: Sequence[Dim], padded: Sequence[int], value: float
) -> Buffer:
    shape, dtype = b.results[0]

    def body(*axes: Index) -> Scalar:
        where = [axis - b.dim(pad) for axis, pad in zip(axes, before, strict=True)]
        return read_padded(b, x, where, padded, b.constant(value, dtype))

    return b.compute(shape, body, dtype, "pad")


def read_padded(
    b: Builder, x: Buffer, where: Sequence[Index], axes: Sequence[int], fill: Scalar
) -> Scalar:
    """``x[where]``, or ``fill`` if an index of ``axes`` is out of range."""
    if not axes:
        return x[tuple(where)]
    return b.read_if(indices_in_range(b, x, where, axes), lambda: x[tuple(where)], fill)


def indices_in_range(
    b: Builder, x: Buffer, where: Sequence[Index], axes: Sequence[int]
) -> Scalar:
    """Whether ``where`` is in the range of ``x`` along one or more ``axes``."""
    conditions = [(where[a] >= 0) & (where[a] < b.dim(x.shape[a])) for a in axes]
    return reduce(and_, conditions)


def _reflected(b: Builder, index: Index, before: Dim, size: Dim) -> "Index | int":
    """The source index of ``reflect``: periodic in 2 * (size - 1), mirrored within."""
    period = shapes.maximum(2 * (size - 1), 1)
    phase = _periodic(b, index, before, period)
    return phase if isinstance(phase, int) else phase.minimum(b.dim(period) - phase)


def _clamped(b: Builder, index: Index, before: Dim, size: Dim) -> Index:
    last = b.dim(size - 1)
    return (index - b.dim(before)).maximum(0).minimum(last)


def _periodic(b: Builder, index: Index, before: Dim, period: Dim) -> "Index | int":
    """``(index - before) mod period`` with a nonnegative result."""
    whole = shapes.ceildiv(before, period) * period
    shifted = index + b.dim(whole - before)
    return shifted % b.dim(period)


_SOURCE_INDEX: "dict[str, Callable[[Builder, Index, Dim, Dim], Index | int]]" = {
    "reflect": _reflected,
    "replicate": _clamped,
    "circular": _periodic,
}
