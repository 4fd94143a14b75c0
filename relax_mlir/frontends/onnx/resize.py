"""Rules for resizing: separable interpolation by a table of indices and weights per axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import RoundOp
from relax_mlir.dialects.relax.bitwise import LogicalAndOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import GreaterEqualOp, WhereOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.resize import (
    COORDINATE_MODES,
    CROP_AND_RESIZE,
    ResampleOp,
    ResizeTableOp,
    resize_table,
)
from relax_mlir.dialects.relax.slicing import StridedSliceOp, optional_constant
from relax_mlir.dialects.shapes import Dim

_OLD_MODES = ("nearest", "linear")
_MODES = (*_OLD_MODES, "cubic")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")
_MAX_ROWS = 1 << 20  # of a constant table; larger ones are computed at run time


@dataclass(frozen=True)
class _Axis:
    """Resizing of one axis.

    Attributes:
        axis: the axis.
        size: its new size.
        scale: the scale; 0 for the ratio of the sizes.
        roi: start and end of the region to resize, normalized to [0, 1].
    """

    axis: int
    size: Dim
    scale: float = 0.0
    roi: tuple[float, float] = (0.0, 1.0)

    def changes(self, old: Dim) -> bool:
        """Whether resizing changes an axis of size ``old``."""
        is_scaled = self.scale not in (0.0, 1.0)
        return self.size != old or is_scaled or self.roi != (0.0, 1.0)


@onnx_rule("Upsample", since=7)
def upsample_attribute(node: OnnxNode) -> ir.Value:
    """Resizing by scales that are an attribute.

    Source: ONNX Upsample-7.
    """
    return _resized_by(node, node.attr("scales"))


@onnx_rule("Upsample", since=9)
@onnx_rule("Resize", since=10)
def resize_by_scales(node: OnnxNode) -> ir.Value:
    """Resizing by scales that are an input.

    Source: ONNX Upsample-9, Resize-10; coordinates and rounding as in onnxruntime.
    """
    return _resized_by(node, node.known(1).reshape(-1).tolist())


def _resized_by(node: OnnxNode, scales: Sequence[float]) -> ir.Value:
    dims = tensors.shape_of(node.input(0))
    x = node.input(0)
    if node.op_type == "Upsample" and min(scales, default=1) < 1:
        raise ValueError(f"scales: expected 1 or more, got {list(scales)}")
    for axis, scale in enumerate(_checked(scales, len(dims))):
        attrs = {
            "mode": node.one_of("mode", _OLD_MODES, "nearest"),
            "coordinates": "asymmetric",
            "rounding": "ceil" if scale < 1 else "floor",
        }
        x = _resized(node, x, [_Axis(axis, _scaled(dims[axis], scale), scale)], attrs)
    return x


@onnx_rule("Resize", since=11)
def resize(node: OnnxNode) -> ir.Value:
    """Resizing by scales or to sizes.

    Source: ONNX Resize-19.
    """
    attrs = {
        "mode": node.one_of("mode", _MODES, "nearest"),
        "coordinates": node.one_of(
            "coordinate_transformation_mode", COORDINATE_MODES, "half_pixel"
        ),
        "rounding": node.one_of("nearest_mode", _ROUNDINGS, "round_prefer_floor"),
        "cubic_a": node.attr("cubic_coeff_a", -0.75),
        "exclude_outside": node.flag("exclude_outside", default=False),
        "antialias": node.flag("antialias", default=False),
    }
    return _resized(node, node.input(0), _axes(node), attrs)


def _axes(node: OnnxNode) -> list[_Axis]:
    dims = tensors.shape_of(node.input(0))
    axes = shapes.normalize_axes(node.attr("axes", range(len(dims))), len(dims))
    rois = _rois(node, len(axes))
    scales = optional_constant(node, 2)
    if scales is not None and len(scales):
        sizes = node.optional(3)
        if sizes is not None and tensors.shape_of(sizes) != (0,):
            raise ValueError("expected scales or sizes, got both")
        given = _checked(scales.reshape(-1).tolist(), len(axes))
        pairs = [(_scaled(dims[a], s), s) for a, s in zip(axes, given, strict=True)]
    else:
        policy = node.one_of("keep_aspect_ratio_policy", _POLICIES, "stretch")
        sizes = node.dims(3)
        _check_count("sizes", len(sizes), len(axes))
        pairs = _sized([dims[a] for a in axes], sizes, policy)
    return [
        _Axis(a, *pair, roi) for a, pair, roi in zip(axes, pairs, rois, strict=True)
    ]


def _checked(scales: Sequence[float], count: int) -> Sequence[float]:
    """Scales, checked to be ``count`` positive numbers."""
    _check_count("scales", len(scales), count)
    for scale in scales:
        if not 0 < scale < math.inf:
            raise ValueError(f"scales: expected positive numbers, got {scale:g}")
    return scales


def _check_count(what: str, got: int, count: int) -> None:
    if got != count:
        raise ValueError(f"{what}: expected one for each of {count} axes, got {got}")


def _rois(node: OnnxNode, count: int) -> list[tuple[float, float]]:
    """The region of each axis to resize: all of it, except in crop-and-resize mode."""
    if node.attr("coordinate_transformation_mode", "half_pixel") != CROP_AND_RESIZE:
        return [(0.0, 1.0)] * count
    roi = node.known(1).reshape(-1).tolist()
    if len(roi) != 2 * count:
        raise ValueError(f"roi: expected {2 * count} numbers, got {len(roi)}")
    return list(zip(roi[:count], roi[count:], strict=True))


def _scaled(dim: Dim, scale: float) -> Dim:
    """floor(dim * scale), exact because a float is a dyadic fraction."""
    fraction = Fraction(scale)
    return shapes.floordiv(dim * fraction.numerator, fraction.denominator)


def _sized(
    old: Sequence[Dim], new: Sequence[Dim], policy: str
) -> list[tuple[Dim, float]]:
    """Sizes and scales by aspect ratio policy; all but ``stretch`` use one scale.

    Raises:
        NotKnownError: the policy needs static sizes, and they are symbolic.
    """
    if policy == "stretch":
        return [(size, 0.0) for size in new]
    pairs = [
        (before, after)
        for before, after in zip(old, new, strict=True)
        if isinstance(before, int) and isinstance(after, int)
    ]
    if len(pairs) != len(old):
        index = 0 if all(isinstance(size, int) for size in new) else 3
        raise ValueNotKnownError(
            index,
            f"policy `{policy}`: expected known sizes, got "
            f"{shapes.format_shape(old)} to {shapes.format_shape(new)}",
            needs_shape_only=index == 0,
        )
    if any(before < 1 for before, _ in pairs):
        raise ValueError(f"`{policy}`: expected sizes of 1 or more, got {list(old)}")
    ratios = [after / before for before, after in pairs]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [(int(scale * size + 0.5), scale) for size, _ in pairs]


def _resized(
    node: OnnxNode, x: ir.Value, axes: Sequence[_Axis], attrs: dict[str, Any]
) -> ir.Value:
    """``x`` resized axis by axis; integers are interpolated in f32.

    The conversion back to integers rounds; that of plain ``linear`` truncates, as in
    onnxruntime; the standard does not define it.
    """
    old, dtype = tensors.shape_of(x), tensors.dtype_of(x)
    changed = [axis for axis in axes if axis.changes(old[axis.axis])]
    is_nearest = attrs["mode"] == "nearest"
    is_cast = not is_nearest and not dtype.is_float and bool(changed)
    if is_cast:
        x = AstypeOp(x, dtype=dtypes.dtype("float32")).y
    insides: list[ir.Value] = []
    for axis in changed:
        indices, weights = _table(node, x, axis, attrs)
        if attrs["coordinates"] == CROP_AND_RESIZE:
            insides.append(_inside(node, indices, len(old) - axis.axis))
        if is_nearest:
            x = TakeOp(x, _first(indices), axis=axis.axis, mode="clip").y
        else:
            x = ResampleOp(x, indices, weights, axis=axis.axis).y
    if is_cast:
        truncates = attrs["mode"] == "linear" and not attrs.get("antialias")
        x = AstypeOp(x if truncates else RoundOp(x).y, dtype=dtype).y
    return _filled(node, x, insides)


def _first(indices: ir.Value) -> ir.Value:
    """The first source index of each element."""
    size = tensors.shape_of(indices)[0]
    first = StridedSliceOp(indices, axes=[1], begin=[0], end=[1]).y
    return ReshapeOp(first, shape=(size,)).y


def _inside(node: OnnxNode, indices: ir.Value, rank: int) -> ir.Value:
    """Mask of in-bounds elements along an axis, with ``rank - 1`` trailing unit axes."""
    first = _first(indices)
    inside = GreaterEqualOp(first, node.constant(np.array(0, np.int64))).z
    shape = (*tensors.shape_of(first), *[1] * (rank - 1))
    return ReshapeOp(inside, shape=shape).y


def _filled(node: OnnxNode, x: ir.Value, insides: Sequence[ir.Value]) -> ir.Value:
    """``x`` where all masks are true, elsewhere the node's extrapolation value."""
    if not insides:
        return x
    inside = reduce(lambda a, b: LogicalAndOp(a, b).z, insides)
    value = np.array(node.attr("extrapolation_value", 0.0), np.float32)
    fill = node.constant(AstypeOp.reference(value, tensors.dtype_of(x)))
    return WhereOp(inside, x, fill).z


def _table(
    node: OnnxNode, x: ir.Value, axis: _Axis, attrs: dict[str, Any]
) -> tuple[ir.Value, ir.Value]:
    """Source indices and weights of an axis; constants if its sizes are static and small."""
    old, new = tensors.shape_of(x)[axis.axis], axis.size
    attrs = {**attrs, "scale": axis.scale, "roi": axis.roi}
    if attrs.get("antialias") and not axis.scale:
        attrs["scale"] = _ratio(node, old, new)
    if not isinstance(old, int) or not isinstance(new, int) or new > _MAX_ROWS:
        table = ResizeTableOp(x, axis=axis.axis, size=(new,), **attrs)
        return table.places, table.weights
    indices, weights = resize_table(old, new, tensors.dtype_of(x), **attrs)
    return node.constant(indices), node.constant(weights)


def _ratio(node: OnnxNode, old: Dim, new: Dim) -> float:
    """``new / old``, which determines the length of the antialiasing filter.

    Raises:
        NotKnownError: the sizes are symbolic, and ``new`` is not a multiple of ``old``.
    """
    if isinstance(old, int) and isinstance(new, int):
        return new / max(old, 1)
    quotient, rest = shapes.divide(new, old)
    if not isinstance(quotient, int) or rest != 0 or quotient < 1:
        index = 0 if isinstance(new, int) else 3
        raise ValueNotKnownError(
            index,
            f"attribute `antialias`: expected known sizes, got {old} to {new}",
            needs_shape_only=index == 0,
        )
    return float(quotient)
