"""Predicates for calls on which TOPI's program agrees with the operator's definition.

Other calls keep their operator, which is then lowered by the compiler's own program: the
operator's ``legalize``.
"""

import math
from collections.abc import Callable, Mapping

from relax_mlir.dialects import dtypes
from relax_mlir.objects.expr import Call, Constant, Expr, PrimValue, ShapeExpr
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.prim import FloatImm, IntImm
from relax_mlir.tvm.relax.transform.legalize_ops.calls import LegalizeFunc, tensor_info
from relax_mlir.tvm.topi.sizes import as_int, is_one, same_size

__all__ = ["is_covered", "within_coverage"]

_Predicate = Callable[[Call], bool]


def is_covered(name: str, call: Call) -> bool:
    """Returns whether TOPI's program for an operator computes what this call means.

    Args:
        name: of the operator, without ``relax.``.
        call: a call of the operator.
    """
    covers = _COVERAGE.get(name)
    return covers is None or covers(call)


def within_coverage(name: str, rule: LegalizeFunc) -> LegalizeFunc:
    """Restricts a rule to the calls that TOPI computes as defined; others stay."""
    if name not in _COVERAGE:
        return rule
    return lambda builder, call: rule(builder, call) if is_covered(name, call) else call


def _is_float(expr: Expr) -> bool:
    return tensor_info(expr).dtype.startswith(("float", "bfloat"))


def _sizes(expr: Expr) -> list[int | None]:
    """Returns the dimensions of a tensor; None for symbolic ones."""
    shape = tensor_info(expr).shape
    assert isinstance(shape, ShapeExpr)
    return [as_int(size) for size in shape.values]


def _has_integer_data(call: Call) -> bool:
    """Integer operands only: TOPI treats NaN as neither larger nor smaller.

    TOPI also initialises extremes with a finite number, which infinities exceed.
    """
    return not _is_float(call.args[0])


def _is_integer_arg_reduction(call: Call) -> bool:
    return bool(_sizes(call.args[0])) and _has_integer_data(call)


def _is_nonempty_integer_reduction(call: Call) -> bool:
    sizes, axis = _sizes(call.args[0]), call.attrs["axis"]
    reduced = sizes if axis is None else [sizes[int(a)] for a in axis]
    return 0 not in reduced and _has_integer_data(call)


def _has_float_operands(call: Call) -> bool:
    return all(map(_is_float, call.args))


def _has_float_data(call: Call) -> bool:
    """Float operands only: TOPI divides integers by a count of another type."""
    return _is_float(call.args[0])


def _has_no_sub_byte_type(call: Call) -> bool:
    """No sub-byte types: TOPI has no floats of fewer than 8 bits."""
    names = tensor_info(call.args[0]).dtype, tensor_info(call).dtype
    return all(not dtypes.dtype(name).is_padded for name in names)


def _has_ordered_bounds(call: Call) -> bool:
    """Ordered bounds in range: TOPI applies the upper bound first, in the element type."""
    values = [b.value for b in call.args[1:] if isinstance(b, PrimValue)]
    bounds = [float(v.value) for v in values if isinstance(v, (IntImm, FloatImm))]
    if len(bounds) < 2:
        return True
    low, high = bounds
    if _is_float(call.args[0]):
        return low <= high
    if not (math.isfinite(low) and math.isfinite(high)):
        return False
    dtype = tensor_info(call.args[0]).dtype
    least, most = _integer_limits(dtype)
    return least <= low <= high <= most


def _integer_limits(dtype: str) -> tuple[int, int]:
    """Returns the smallest and the largest value of an integer type."""
    info = dtypes.dtype(dtype)
    if info.kind == "u":
        return 0, (1 << info.bits) - 1
    return -(1 << info.bits - 1), (1 << info.bits - 1) - 1


def _has_one_dtype(call: Call) -> bool:
    """One element type: TOPI computes in, and returns, the wider of several."""
    infos = [arg.struct_info for arg in call.args]
    return len({i.dtype for i in infos if isinstance(i, TensorStructInfo)}) == 1


def _has_scale_and_center(call: Call) -> bool:
    """Scale and shift both enabled: TOPI ignores ``scale`` and ``center``."""
    is_whole = all(call.attrs.get(name, True) for name in ("scale", "center"))
    return is_whole and _has_one_dtype(call)


def _axes_match_parameters(call: Call) -> bool:
    """Ascending axes whose sizes the parameters have, as TOPI requires."""
    data, *params = call.args
    sizes = _sizes(data)
    axes = [int(axis) % len(sizes) for axis in call.attrs["axes"]]
    axis_sizes = [sizes[axis] for axis in axes]
    fits = all(_sizes(param) == axis_sizes for param in params)
    return fits and axes == sorted(axes) and _has_scale_and_center(call)


def _is_single_precision(call: Call) -> bool:
    """Only float32: TOPI adds epsilon in, and returns, single precision."""
    return _has_one_dtype(call) and tensor_info(call.args[0]).dtype == "float32"


def _has_wide_accumulator(call: Call) -> bool:
    """At least 32 bits: TOPI rounds each product to the element type before adding."""
    return dtypes.dtype(tensor_info(call.args[0]).dtype).bits >= 32


def _has_no_narrow_float(call: Call) -> bool:
    """No 16-bit floats: TOPI rounds the quotient to them, perhaps to the next integer."""
    return not _is_float(call.args[0]) or _has_wide_accumulator(call)


def _has_slope_per_channel(call: Call) -> bool:
    data, slope = call.args
    axis = int(call.attrs["axis"])
    return len(_sizes(slope)) == 1 and 0 <= axis < len(_sizes(data))


def _pads_less_than_size(call: Call) -> bool:
    """Pads smaller than the data: TOPI reflects once, and reads out of bounds otherwise."""
    if call.attrs["pad_mode"] != "reflect":
        return True
    widths = [int(width) for width in call.attrs["pad_width"]]
    pads = zip(widths[::2], widths[1::2], strict=True)
    sizes = _sizes(call.args[0])
    return all(
        max(ends) == 0 or (size is not None and max(ends) < size)
        for size, ends in zip(sizes, pads, strict=True)
    )


def _has_decidable_axes(call: Call) -> bool:
    """Decidable reduction axes: TOPI needs sizes that show which axes are summed."""
    target = tensor_info(call).shape
    data = tensor_info(call.args[0]).shape
    if not isinstance(target, ShapeExpr) or not isinstance(data, ShapeExpr):
        return True
    pairs = zip(reversed(data.values), reversed(target.values), strict=False)
    return all(
        is_one(target_size) or same_size(size, target_size)
        for size, target_size in pairs
    )


def _shifts_by_less_than_width(call: Call) -> bool:
    """Shifts by fewer than all bits: TOPI uses the machine's shifts, undefined beyond."""
    distance = call.args[1]
    if not isinstance(distance, Constant):
        return False
    array = distance.data.numpy()
    bits = dtypes.dtype(tensor_info(call.args[0]).dtype).bits
    return bool(array.size) and int(array.min()) >= 0 and int(array.max()) < bits


def _splits_in_bounds(call: Call) -> bool:
    """Split points within the axis: TOPI reads out of bounds for those past its end."""
    sizes, axis = _sizes(call.args[0]), int(call.attrs["axis"])
    if sizes[axis] is not None:
        return True
    split_points = call.attrs["indices_or_sections"]
    count = as_int(split_points)
    if count is not None:
        return count <= 2  # the second of two parts starts at the end at the latest
    return all(as_int(point) == 0 for point in split_points)


def _squeezes_unit_axes(call: Call) -> bool:
    sizes, axes = _sizes(call.args[0]), call.attrs["axis"]
    return axes is None or all(sizes[int(a)] in (1, None) for a in axes)


def _has_axes(call: Call) -> bool:
    return bool(_sizes(call.args[0]))


def _has_nonzero_scale_divisor(call: Call) -> bool:
    """Output sizes without division by 0: TOPI divides by size, or size - 1 if aligned."""
    data, size = call.args
    if tensor_info(call).dtype != tensor_info(data).dtype:
        return False
    values = size.values if isinstance(size, ShapeExpr) else ()
    mode = call.attrs["coordinate_transformation_mode"]
    least = 2 if mode in ("align_corners", "tf_crop_and_resize") else 1
    constants = [as_int(value) for value in values]
    return all(value is None or value >= least for value in constants)


_COVERAGE: Mapping[str, _Predicate] = {
    "argmax": _is_integer_arg_reduction,
    "argmin": _is_integer_arg_reduction,
    "astype": _has_no_sub_byte_type,
    "clip": _has_ordered_bounds,
    "collapse_sum_like": _has_decidable_axes,
    "collapse_sum_to": _has_decidable_axes,
    "floor_divide": _has_no_narrow_float,
    "floor_mod": lambda call: not any(map(_is_float, call.args)),
    "image.resize2d": _has_nonzero_scale_divisor,
    "image.resize3d": _has_nonzero_scale_divisor,
    "left_shift": _shifts_by_less_than_width,
    # TOPI's sum of exponentials overflows.
    "log_add_exp": lambda call: False,
    "max": _is_nonempty_integer_reduction,
    "mean": _has_float_data,
    "min": _is_nonempty_integer_reduction,
    "nn.batch_norm": _is_single_precision,
    "nn.cross_entropy_with_logits": _has_wide_accumulator,
    "nn.group_norm": _has_scale_and_center,
    "nn.layer_norm": _axes_match_parameters,
    "nn.pad": _pads_less_than_size,
    "nn.prelu": _has_slope_per_channel,
    "nn.rms_norm": _axes_match_parameters,
    "power": _has_float_operands,
    "repeat": _has_axes,
    "right_shift": _shifts_by_less_than_width,
    "sign": _has_integer_data,
    "split": _splits_in_bounds,
    "squeeze": _squeezes_unit_axes,
}
