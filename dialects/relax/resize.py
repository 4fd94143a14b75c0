"""Resizing of an axis as weighted sums, with tables of indices and weights.

The tables depend on the sizes only: they are constants for static sizes, and are computed
by a separate tensor program otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from mlir.ir import (
    BoolAttr,
    DenseF64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import (
    check_not_empty,
    clamp_indices,
    emit_clamped_index,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar, select

__all__ = [
    "COORDINATE_MODES",
    "CROP_AND_RESIZE",
    "ResampleOp",
    "ResizeTableOp",
    "ResizeTableProgram",
    "resize_table",
    "weights_dtype",
]

_INT64, _F64 = dtypes.dtype("int64"), dtypes.dtype("float64")
_MOST_TAPS = 1 << 20  # taps of a filter
_SUPPORT = {"nearest": 0, "linear": 1, "cubic": 2}  # radius of the filter, in elements
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "round")
CROP_AND_RESIZE = "tf_crop_and_resize"
COORDINATE_MODES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    CROP_AND_RESIZE,
)


class ResampleOp(Relax.Operation, name="resample"):
    """Resamples one axis: y[a, i, b] = sum over k of x[a, places[i, k], b] * weights[i, k].

    Indices out of range are clamped.

    Attributes:
        axis: negative ones count from the end.
    Shapes:
        x: [a..., n, b...], floats; places: [m, k], int64, k is static; weights: [m, k], of
        x's type, or f32 for f16 and bf16; y: [a..., m, b...].
    """

    x: Operand[RankedTensorType]
    places: Operand[RankedTensorType]
    weights: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((2, 5), (7, 2, "int64"), (7, 2), axis=-1, low=0, high=4),
        Case((4, 3), (5, 1, "int64"), (5, 1), axis=0, low=0, high=3),
        Case((1, 2, 5, 3), (3, 9, "int64"), (3, 9), axis=2, low=0, high=4),
        Case((3, "float16"), (2, 4, "int64"), (2, 4), axis=0, low=0, high=2),
        Case((3, "float64"), (2, 2, "int64"), (2, 2, "float64"), axis=0, low=0, high=2),
        Case((2, 3), (0, 2, "int64"), (0, 2), axis=1),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        # A table built by the importer; edge elements are repeated by clamping.
        "places": IndexOperand.unlimited("clamps: picks the nearest element")
    }

    @staticmethod
    def infer(
        x: RankedTensorType,
        places: RankedTensorType,
        weights: RankedTensorType,
        axis: int,
    ) -> RankedTensorType:
        axis = shapes.check_axis(axis, x.rank)
        check_not_empty(tensors.shape_of(x)[axis], tensors.shape_of(places))
        table, expected = tensors.shape_of(places), weights_dtype(tensors.dtype_of(x))
        if table != tensors.shape_of(weights) or not isinstance(table[-1], int):
            raise ValueError("places and weights must be [m, k], where k is known")
        if tensors.dtype_of(weights) != expected:
            raise ValueError(
                f"weights must be {expected}, got {tensors.dtype_of(weights)}"
            )
        shape = tensors.shape_of(x)
        shape = (*shape[:axis], table[0], *shape[axis + 1 :])
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray, places: np.ndarray, weights: np.ndarray, axis: int
    ) -> np.ndarray:
        gathered = np.moveaxis(x, axis, -1).astype(np.float64)[
            ..., clamp_indices(places, x.shape[axis])
        ]
        return np.moveaxis((gathered * weights).sum(-1), -1, axis).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x, places, weights = b.inputs
        shape, dtype = b.results[0]
        axis = self.axis.value % x.rank
        taps = shapes.evaluate(places.shape[-1], {})

        def weighted(k: "Index | int", *axes: Index) -> Scalar:
            position = emit_clamped_index(b, places[axes[axis], k], x.shape[axis])
            value = x[(*axes[:axis], position, *axes[axis + 1 :])]
            return b.widen(value) * weights[axes[axis], k]

        def unrolled(*axes: Index) -> Scalar:
            total = weighted(0, *axes)
            for k in range(1, taps):
                total = total + weighted(k, *axes)
            return b.cast(total, dtype)

        if 1 <= taps <= 4:
            return b.compute(shape, unrolled, dtype, "resample")
        return b.reduce_over(
            "add", shape, [taps], lambda *p: weighted(p[-1], *p[:-1]), dtype, "resample"
        )


def weights_dtype(dtype: DType) -> DType:
    """The type of the weights for elements of ``dtype``: f32 for f16 and bf16.

    Raises:
        ValueError: ``dtype`` is not a float type.
    """
    if not dtype.is_float:
        raise ValueError(f"expected floats, got {dtype}")
    return Builder.accumulator_dtype(dtype)


class ResizeTableOp(Relax.Operation, name="resize_table"):
    """The interpolation table of a resized axis: source indices and weights per element.

    Element i of the output axis maps to a coordinate of the input axis. ``nearest`` rounds
    the coordinate to an element; ``linear`` and ``cubic`` weight the 2 or 4 elements around
    it by a triangle filter or Keys' cubic convolution.

    Attributes:
        axis: the axis of x; negative ones count from the end.
        size: the output size, ``#relax.shape<["10"]>``.
        scale: output size divided by input size; 0 for the ratio of the actual sizes.
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: the map from output to input coordinates, ONNX's
            ``coordinate_transformation_mode``.
        rounding: for ``nearest``: ``round_prefer_floor``, ``round_prefer_ceil``, ``round``
            (ties to even), ``floor`` or ``ceil``.
        cubic_a: the coefficient of the cubic kernel.
        exclude_outside: whether elements outside of the axis get weight 0 and the others are
            renormalised; otherwise the edge element is repeated.
        antialias: whether the filter is stretched when the axis shrinks.
        roi: begin and end of the region to resize, from 0 to 1, for
            ``tf_crop_and_resize``; indices outside of the axis are then -1.
    Shapes:
        x: any, its elements are not read; places: [size, k], int64; weights: [size, k].
    Source: ONNX Resize-19; Keys, Cubic convolution interpolation, 1981.
    """

    x: Operand[RankedTensorType]
    places: Result[RankedTensorType]
    weights: Result[RankedTensorType]
    axis: IntegerAttr
    size: Attr
    scale: FloatAttr
    mode: StringAttr
    coordinates: StringAttr
    rounding: StringAttr
    cubic_a: FloatAttr
    exclude_outside: BoolAttr
    antialias: BoolAttr
    roi: DenseF64ArrayAttr

    cases = (
        *(
            Case((5,), axis=0, size=(8,), mode="linear", coordinates=c)
            for c in COORDINATE_MODES
        ),
        *(
            Case((9,), axis=0, size=(4,), mode="nearest", rounding=r)
            for r in _ROUNDINGS
        ),
        *(
            Case((2, 3), axis=1, size=(1,), mode="linear", coordinates=c)
            for c in COORDINATE_MODES
        ),
        Case((2, 6), axis=-1, size=(9,), mode="cubic"),
        Case(
            (4,), axis=0, size=(10,), mode="cubic", exclude_outside=True, cubic_a=-0.5
        ),
        Case((5,), axis=0, size=(3,), scale=0.6, mode="linear", antialias=True),
        Case((9,), axis=0, size=(3,), scale=0.4, mode="cubic", antialias=True),
        Case(
            (4,),
            axis=0,
            size=(2,),
            scale=0.6,
            mode="linear",
            coordinates="align_corners",
        ),
        Case((4,), axis=0, size=(2,), scale=0.6, coordinates="half_pixel_symmetric"),
        *(
            Case(
                (5,),
                axis=0,
                size=(6,),
                mode=m,
                coordinates=CROP_AND_RESIZE,
                roi=(0.4, 1.2),
            )
            for m in _SUPPORT
        ),
        Case((3, "float64"), axis=0, size=(0,), mode="linear"),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        axis: int,
        size: Sequence[Dim],
        scale: float = 0.0,
        mode: str = "nearest",
        coordinates: str = "half_pixel",
        rounding: str = "round_prefer_floor",
        cubic_a: float = -0.75,
        exclude_outside: bool = False,
        antialias: bool = False,
        roi: Sequence[float] = (0.0, 1.0),
    ) -> tuple[RankedTensorType, RankedTensorType]:
        axis = shapes.check_axis(axis, x.rank)
        shapes.require_nonnegative(size)
        check_not_empty(tensors.shape_of(x)[axis], size)
        _check_name("mode", mode, tuple(_SUPPORT))
        _check_name("coordinates", coordinates, COORDINATE_MODES)
        _check_name("rounding", rounding, _ROUNDINGS)
        if antialias and not scale:
            raise ValueError(
                "antialias: expected a known scale, which determines the length of the "
                "filter, got 0"
            )
        shape = (*size, len(_offsets(mode, scale if antialias else 1.0)))
        dtype = tensors.dtype_of(x)
        weights = weights_dtype(dtype) if dtype.is_float else dtypes.dtype("float32")
        return tensors.tensor_type(shape, _INT64), tensors.tensor_type(shape, weights)

    @staticmethod
    def reference(
        x: np.ndarray, axis: int, size: Sequence[int], **attrs: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        return resize_table(x.shape[axis], size[0], dtypes.from_numpy(x.dtype), **attrs)

    def legalize(self, b: Builder) -> tuple[Buffer, Buffer]:
        attrs = self.python_attrs()
        shape, dtype = b.results[1]
        old = b.inputs[0].shape[attrs["axis"]]
        return ResizeTableProgram(b, attrs, (old, shape[0]), dtype).emit()


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"bad {what}: expected {', '.join(known)}, got `{name}`")


def _offsets(mode: str, scale: float) -> range:
    """Offsets of the filter taps from the element at or before the coordinate."""
    if mode == "nearest":
        return range(1)
    reach = _SUPPORT[mode] / min(scale, 1.0)
    if reach > _MOST_TAPS:
        raise ValueError(
            f"scale: expected {_SUPPORT[mode] / _MOST_TAPS:g} or more with antialiasing, "
            f"got {scale:g}"
        )
    start = int(np.floor(-reach)) + 1
    return range(start, 2 - start)


def resize_table(
    old: int, new: int, dtype: DType, **attrs: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The table from ``old`` to ``new`` elements in numpy; attributes of ResizeTableOp."""
    attrs = {**ResizeTableOp.attribute_defaults(), **attrs}
    scale = attrs["scale"] or new / max(old, 1)
    i = np.arange(new, dtype=np.float64)
    length = scale * old if attrs["scale"] else new
    at = np.zeros(new) + _coordinates(i, float(old), new, (scale, length), attrs)
    filter_scale = min(scale, 1.0) if attrs["antialias"] else 1.0
    offsets = np.array(_offsets(attrs["mode"], filter_scale))
    indices = _ROUND[attrs["rounding"]](at, _numpy_function)[:, None]
    weights = np.ones((new, 1))
    if attrs["mode"] != "nearest":
        indices = np.floor(at)[:, None] + offsets
        distances = np.abs(indices - at[:, None]) * filter_scale
        weights = _FILTERS[attrs["mode"]](distances, attrs["cubic_a"], np.where)
        if attrs["exclude_outside"]:
            weights = np.where((indices >= 0) & (indices < old), weights, 0.0)
        weights = weights / weights.sum(1, keepdims=True)
    indices = indices.clip(0, max(0, old - 1)).astype(np.int64)
    if attrs["coordinates"] == CROP_AND_RESIZE:
        indices[~((at >= 0) & (at <= old - 1))] = -1
    return indices, weights.astype(
        weights_dtype(dtype).numpy if dtype.is_float else "f4"
    )


# The following works on numpy arrays and on scalars of tensor programs alike.

Number = Any  # a float, an array of f64, or a Scalar of f64

_ROUND: dict[str, Callable[..., Number]] = {
    "floor": lambda x, fn: fn("floor", x),
    "ceil": lambda x, fn: fn("ceil", x),
    "round_prefer_floor": lambda x, fn: fn("ceil", x - 0.5),
    "round_prefer_ceil": lambda x, fn: fn("floor", x + 0.5),
    "round": lambda x, fn: fn("roundeven", x),
}


def _numpy_function(name: str, x: np.ndarray) -> np.ndarray:
    return {"floor": np.floor, "ceil": np.ceil, "roundeven": np.rint}[name](x)


def _coordinates(
    i: Number,
    old: Number,
    new: Number,
    scaling: tuple[Number, Number],
    attrs: dict[str, Any],
) -> Number:
    """The input coordinate of output element ``i``.

    Args:
        i: index of the output element.
        old, new: the input and output sizes.
        scaling: the scale and the output length; the length is the possibly fractional
            ``scale * old`` if a scale is given.
        attrs: attributes of the operation.

    Source: ONNX Resize-19, ``coordinate_transformation_mode``, and its tests, in which
        the length for aligned corners may be fractional.
    """
    mode, (scale, length) = attrs["coordinates"], scaling
    half = (i + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if mode == "pytorch_half_pixel":
        return _unless_one(new, 0.0, lambda: half)
    if mode == "half_pixel_symmetric":
        return (old - new * old / length) / 2 + half
    if mode == "align_corners":
        return _unless_one(length, 0.0, lambda: i * (old - 1) / (length - 1))
    if mode == CROP_AND_RESIZE:
        begin, end = attrs["roi"]
        span = (end - begin) * (old - 1)
        return _unless_one(
            length, span / 2, lambda: i * span / (length - 1)
        ) + begin * (old - 1)
    return half


def _unless_one(length: Number, alone: Number, other: Callable[[], Number]) -> Number:
    """``alone`` if ``length`` is 1, else ``other()``."""
    if not isinstance(length, Scalar):
        return alone if length == 1 else other()
    value = other()
    alone = alone if isinstance(alone, Scalar) else length * 0 + alone
    return select(length.equal(1), alone, value)


def _triangle(x: Number, a: float, where: Callable[..., Number]) -> Number:
    return where(x < 1, 1 - x, x * 0)


def _cubic(x: Number, a: float, where: Callable[..., Number]) -> Number:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return where(x <= 1, near, where(x < 2, far, x * 0))


_FILTERS = {"linear": _triangle, "cubic": _cubic}


class ResizeTableProgram:
    """Emits the interpolation table of one axis.

    Args:
        b: the builder.
        attrs: all attributes of a :class:`ResizeTableOp`.
        sizes: the input and output sizes of the axis.
        dtype: the type of the weights.
    """

    def __init__(
        self, b: Builder, attrs: dict[str, Any], sizes: tuple[Dim, Dim], dtype: DType
    ) -> None:
        self.b, self.attrs = b, attrs
        self.old, new = sizes
        self.dtype = dtype
        scale = attrs["scale"] if attrs["antialias"] else 1.0
        self.filter_scale = min(scale, 1.0)
        self.offsets = _offsets(attrs["mode"], scale)
        self.shape = (new, len(self.offsets))

    def emit(self) -> tuple[Buffer, Buffer]:
        indices = self.b.compute(self.shape, self.source_index, _INT64, "places")
        return indices, self.b.compute(self.shape, self.weight, self.dtype, "weights")

    def number(self, dim: Dim) -> Number:
        size = self.b.dim(dim)
        return size.to_scalar(_F64) if isinstance(size, Index) else float(size)

    def coordinate(self, i: Index) -> Scalar:
        old, new = self.number(self.old), self.number(self.shape[0])
        scale = self.attrs["scale"]
        scaling = (scale, scale * old) if scale else (new / old, new)
        at = _coordinates(i.to_scalar(_F64), old, new, scaling, self.attrs)
        return at if isinstance(at, Scalar) else self.b.constant(at, _F64)

    def element(self, at: Scalar, k: "Index | int") -> Scalar:
        """The position of filter tap ``k`` at a coordinate, possibly outside of the axis."""
        if self.attrs["mode"] == "nearest":
            return _ROUND[self.attrs["rounding"]](at, self.b.math)
        tap = k.to_scalar(_F64) if isinstance(k, Index) else float(k)
        return self.b.math("floor", at) + tap + float(self.offsets[0])

    def source_index(self, i: Index, k: Index) -> Scalar:
        b, at = self.b, self.coordinate(i)
        element = Index.from_scalar(b.cast(self.element(at, k), _INT64))
        last = b.dim(self.old - 1)
        clamped_index = element.minimum(last).maximum(0).to_scalar(_INT64)
        if self.attrs["coordinates"] != CROP_AND_RESIZE:
            return clamped_index
        inside = (at >= 0.0) & (at <= self.number(self.old - 1))
        return b.select(inside, clamped_index, b.constant(-1, _INT64))

    def weight(self, i: Index, k: Index) -> Scalar:
        if self.attrs["mode"] == "nearest":
            return self.b.constant(1.0, self.dtype)
        at = self.coordinate(i)
        total = self.filtered(at, 0)
        for other in range(1, len(self.offsets)):
            total = total + self.filtered(at, other)
        return self.b.cast(self.filtered(at, k) / total, self.dtype)

    def filtered(self, at: Scalar, k: "Index | int") -> Scalar:
        """The weight of filter tap ``k`` before normalisation."""
        b, element = self.b, self.element(at, k)
        distance = b.math("absf", element - at) * self.filter_scale
        weight = _FILTERS[self.attrs["mode"]](distance, self.attrs["cubic_a"], b.select)
        if not self.attrs["exclude_outside"]:
            return weight
        inside = (element >= 0.0) & (element < self.number(self.old))
        return b.select(inside, weight, b.constant(0.0, _F64))
