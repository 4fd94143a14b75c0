"""Padding and cropping."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_

import numpy as np
from mlir.ir import FloatAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["PadOp"]

_MODES = ("constant", "reflect", "edge", "wrap")


class PadOp(Relax.Operation, name="pad"):
    """Elements added around a tensor; negative pads take some away.

    Attributes:
        pads: elements before every axis, then after every axis; may be symbolic.
        mode: what is added: ``constant``; ``reflect``, the elements mirrored at the
            first and last, which are not repeated; ``edge``, the first and last;
            ``wrap``, the elements from the other end. Only ``constant`` takes
            negative pads.
        value: the constant.
    Shapes:
        x: any rank and element type; y: x's sizes plus pads.
    Source: ONNX Pad-19.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    pads: Attr
    mode: StringAttr
    value: FloatAttr

    cases = (
        Case((3, 5), pads=(1, 2, 0, 3), value=1.5),
        Case((5,), pads=(-1, -2)),
        Case((4, 5), pads=(2, -1, -3, 1), value=-1.0),
        Case((0, 2), pads=(1, 0, 1, 0), value=3.0),
        Case((1, 2, 5, 7), pads=(0, 0, 2, 1, 0, 0, 2, 1)),
        Case((3, "int64"), pads=(1, 1), value=-7.0, low=-9, high=9),
        Case((3, "bool"), pads=(2, 0), value=1.0),
        Case((3, 4), pads=(2, 0, 1, 3), mode="reflect"),
        Case((3,), pads=(7, 9), mode="reflect"),
        Case((1, 2), pads=(2, 1, 2, 1), mode="reflect"),
        Case((3, 4), pads=(2, 5, 0, 3), mode="edge"),
        Case((3, 4, "int32"), pads=(2, 5, 0, 9), mode="wrap", low=-9, high=9),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        pads: Sequence[Dim],
        mode: str = "constant",
        value: float = 0.0,
    ) -> RankedTensorType:
        if mode not in _MODES:
            raise ValueError(f"bad mode: expected {', '.join(_MODES)}, got `{mode}`")
        shape = tensors.shape_of(x)
        padded = shapes.pad_shape(shape, tuple(pads))
        if mode != "constant":
            _check_copies(shape, pads)
        return tensors.tensor_type(padded, tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray, pads: Sequence[int], mode: str = "constant", value: float = 0.0
    ) -> np.ndarray:
        pairs = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
        grown = [(max(0, before), max(0, after)) for before, after in pairs]
        if mode == "constant":
            x = np.pad(x, grown, constant_values=x.dtype.type(value))
        else:
            x = np.pad(x, grown, mode=mode)
        cut = tuple(
            slice(max(0, -b), n + min(0, a))
            for n, (b, a) in zip(x.shape, pairs, strict=True)
        )
        return np.ascontiguousarray(x[cut])

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        before = [b.local(pad) for pad in attrs["pads"][: x.rank]]
        padded = [
            axis
            for axis in range(x.rank)
            if x.shape[axis] != shape[axis] or before[axis] != 0
        ]
        if attrs["mode"] == "constant":
            return _pad_constant(b, x, before, padded, attrs["value"])
        place = _PLACES[attrs["mode"]]

        def body(*axes: Index) -> Scalar:
            where: list[Index | int] = list(axes)
            for axis in padded:
                where[axis] = place(b, axes[axis], before[axis], x.shape[axis])
            return x[tuple(where)]

        return b.compute(shape, body, dtype, "pad")


def _check_copies(shape: Sequence[Dim], pads: Sequence[Dim]) -> None:
    """A mode that copies elements needs some to copy, and cannot remove any."""
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
    """``x[where]``, or ``fill`` where one of ``axes`` is out of range."""
    if not axes:
        return x[tuple(where)]
    return b.guarded(is_within(b, x, where, axes), lambda: x[tuple(where)], fill)


def is_within(
    b: Builder, x: Buffer, where: Sequence[Index], axes: Sequence[int]
) -> Scalar:
    """Whether ``where`` is in the range of ``x`` along ``axes``, which are some."""
    conditions = [(where[a] >= 0) & (where[a] < b.dim(x.shape[a])) for a in axes]
    return reduce(and_, conditions)


def _reflected(b: Builder, index: Index, before: Dim, size: Dim) -> "Index | int":
    """Back and forth over the elements: a period is once each way, ends not repeated."""
    period = shapes.maximum(2 * (size - 1), 1)
    place = _periodic(b, index, before, period)
    return place if isinstance(place, int) else place.minimum(b.dim(period) - place)


def _clamped(b: Builder, index: Index, before: Dim, size: Dim) -> Index:
    last = b.dim(size - 1)
    return (index - b.dim(before)).maximum(0).minimum(last)


def _periodic(b: Builder, index: Index, before: Dim, period: Dim) -> "Index | int":
    """``(index - before) mod period``, where only the dividend may be negative."""
    whole = shapes.ceildiv(before, period) * period
    shifted = index + b.dim(whole - before)
    return shifted % b.dim(period)


_PLACES: "dict[str, Callable[[Builder, Index, Dim, Dim], Index | int]]" = {
    "reflect": _reflected,
    "edge": _clamped,
    "wrap": _periodic,
}
