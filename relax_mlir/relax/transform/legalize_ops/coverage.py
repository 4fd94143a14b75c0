"""The calls whose TOPI program computes what the operator defines.

A call outside of this coverage keeps its operator, which then gets the compiler's own
program: the operator's ``legalize``.
"""

import math
from collections.abc import Callable, Mapping

from relax_mlir.dialects import dtypes
from relax_mlir.objects.expr import Call, Constant, Expr, PrimValue, ShapeExpr
from relax_mlir.objects.prim import FloatImm, IntImm
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.transform.legalize_ops.calls import LegalizeFunc, tensor_info
from relax_mlir.topi.sizes import as_int, is_one, same_size

__all__ = ["is_covered", "within_coverage"]

_Predicate = Callable[[Call], bool]


def is_covered(name: str, call: Call) -> bool:
    """Whether TOPI's program for an operator computes what this call means.

    Args:
        name: of the operator, without ``relax.``.
        call: of it.
    """
    covers = _COVERAGE.get(name)
    return covers is None or covers(call)


def within_coverage(name: str, rule: LegalizeFunc) -> LegalizeFunc:
    """A rule that leaves the calls that TOPI computes differently as they are."""
    if name not in _COVERAGE:
        return rule
    return lambda builder, call: rule(builder, call) if is_covered(name, call) else call


def _is_float(expr: Expr) -> bool:
    return tensor_info(expr).dtype.startswith(("float", "bfloat"))


def _sizes(expr: Expr) -> list[int | None]:
    """The sizes of a tensor; None for those that are symbolic."""
    shape = tensor_info(expr).shape
    assert isinstance(shape, ShapeExpr)
    return [as_int(size) for size in shape.values]


def _of_integers(call: Call) -> bool:
    """TOPI orders NaN by comparison, which makes it neither larger nor smaller.

    Its extremes begin with a finite number, which infinities are beyond.
    """
    return not _is_float(call.args[0])


def _searches_integers(call: Call) -> bool:
    return bool(_sizes(call.args[0])) and _of_integers(call)


def _takes_extremes_of_integers(call: Call) -> bool:
    sizes, axis = _sizes(call.args[0]), call.attrs["axis"]
    reduced = sizes if axis is None else [sizes[int(a)] for a in axis]
    return 0 not in reduced and _of_integers(call)


def _of_floats(call: Call) -> bool:
    return all(map(_is_float, call.args))


def _mean_of_floats(call: Call) -> bool:
    """TOPI divides integers by a count of another type."""
    return _is_float(call.args[0])


def _has_machine_types(call: Call) -> bool:
    """TOPI has no floats of fewer than 8 bits."""
    names = tensor_info(call.args[0]).dtype, tensor_info(call).dtype
    return all(not dtypes.dtype(name).is_padded for name in names)


def _clips_to_an_interval(call: Call) -> bool:
    """TOPI applies the upper bound first, and needs bounds of the element type."""
    terms = [b.value for b in call.args[1:] if isinstance(b, PrimValue)]
    bounds = [float(t.value) for t in terms if isinstance(t, (IntImm, FloatImm))]
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
    """The smallest and the largest integer of a type."""
    known = dtypes.dtype(dtype)
    if known.kind == "u":
        return 0, (1 << known.bits) - 1
    return -(1 << known.bits - 1), (1 << known.bits - 1) - 1


def _has_one_type(call: Call) -> bool:
    """TOPI computes in the wider type of the data and the parameters, and stays there."""
    infos = [arg.struct_info for arg in call.args]
    return len({i.dtype for i in infos if isinstance(i, TensorStructInfo)}) == 1


def _uses_all_parameters(call: Call) -> bool:
    """TOPI scales and shifts whatever ``scale`` and ``center`` say."""
    is_whole = all(call.attrs.get(name, True) for name in ("scale", "center"))
    return is_whole and _has_one_type(call)


def _normalizes_along_parameters(call: Call) -> bool:
    """TOPI's parameters have the sizes of the axes, which ascend."""
    data, *params = call.args
    sizes = _sizes(data)
    axes = [int(axis) % len(sizes) for axis in call.attrs["axes"]]
    wanted = [sizes[axis] for axis in axes]
    fits = all(_sizes(param) == wanted for param in params)
    return fits and axes == sorted(axes) and _uses_all_parameters(call)


def _normalizes_in_single_precision(call: Call) -> bool:
    """TOPI adds epsilon in single precision, and stays there."""
    return _has_one_type(call) and tensor_info(call.args[0]).dtype == "float32"


def _adds_without_rounding(call: Call) -> bool:
    """TOPI rounds each product to the element type before it adds it."""
    return dtypes.dtype(tensor_info(call.args[0]).dtype).bits >= 32


def _has_slope_per_channel(call: Call) -> bool:
    data, slope = call.args
    axis = int(call.attrs["axis"])
    return len(_sizes(slope)) == 1 and 0 <= axis < len(_sizes(data))


def _reflects_once(call: Call) -> bool:
    """TOPI's reflection is one: it reads outside of data that is not larger than the pad."""
    if call.attrs["pad_mode"] != "reflect":
        return True
    widths = [int(width) for width in call.attrs["pad_width"]]
    pads = zip(widths[::2], widths[1::2], strict=True)
    sizes = _sizes(call.args[0])
    return all(
        max(ends) == 0 or (size is not None and max(ends) < size)
        for size, ends in zip(sizes, pads, strict=True)
    )


def _collapses_known_sizes(call: Call) -> bool:
    """TOPI decides which axes are summed, so the sizes have to tell it."""
    target = tensor_info(call).shape
    data = tensor_info(call.args[0]).shape
    if not isinstance(target, ShapeExpr) or not isinstance(data, ShapeExpr):
        return True
    pairs = zip(reversed(data.values), reversed(target.values), strict=False)
    return all(is_one(wanted) or same_size(size, wanted) for size, wanted in pairs)


def _shifts_within_type(call: Call) -> bool:
    """The machine's shifts, which TOPI uses, are defined for less than all bits alone."""
    distance = call.args[1]
    if not isinstance(distance, Constant):
        return False
    array = distance.data.numpy()
    bits = dtypes.dtype(tensor_info(call.args[0]).dtype).bits
    return bool(array.size) and int(array.min()) >= 0 and int(array.max()) < bits


def _splits_where_elements_are(call: Call) -> bool:
    """TOPI's pieces begin where they are told to, also behind the last element."""
    sizes, axis = _sizes(call.args[0]), int(call.attrs["axis"])
    if sizes[axis] is not None:
        return True
    places = call.attrs["indices_or_sections"]
    count = as_int(places)
    if count is not None:
        return count <= 2  # the second of two pieces begins at the end at the latest
    return all(as_int(place) == 0 for place in places)


def _squeezes_ones(call: Call) -> bool:
    sizes, axes = _sizes(call.args[0]), call.attrs["axis"]
    return axes is None or all(sizes[int(a)] in (1, None) for a in axes)


def _has_dimensions(call: Call) -> bool:
    return bool(_sizes(call.args[0]))


def _resizes_pixels(call: Call) -> bool:
    """TOPI divides by the size of the result, and by one less with aligned corners."""
    data, size = call.args
    if tensor_info(call).dtype != tensor_info(data).dtype:
        return False
    values = size.values if isinstance(size, ShapeExpr) else ()
    mode = call.attrs["coordinate_transformation_mode"]
    least = 2 if mode in ("align_corners", "tf_crop_and_resize") else 1
    known = [as_int(value) for value in values]
    return all(value is None or value >= least for value in known)


_COVERAGE: Mapping[str, _Predicate] = {
    "argmax": _searches_integers,
    "argmin": _searches_integers,
    "astype": _has_machine_types,
    "clip": _clips_to_an_interval,
    "collapse_sum_like": _collapses_known_sizes,
    "collapse_sum_to": _collapses_known_sizes,
    "floor_mod": lambda call: not any(map(_is_float, call.args)),
    "image.resize2d": _resizes_pixels,
    "image.resize3d": _resizes_pixels,
    "left_shift": _shifts_within_type,
    # The sum of exponentials overflows.
    "log_add_exp": lambda call: False,
    "max": _takes_extremes_of_integers,
    "mean": _mean_of_floats,
    "min": _takes_extremes_of_integers,
    "nn.batch_norm": _normalizes_in_single_precision,
    "nn.cross_entropy_with_logits": _adds_without_rounding,
    "nn.group_norm": _uses_all_parameters,
    "nn.instance_norm": _uses_all_parameters,
    "nn.layer_norm": _normalizes_along_parameters,
    "nn.pad": _reflects_once,
    "nn.prelu": _has_slope_per_channel,
    "nn.rms_norm": _normalizes_along_parameters,
    "power": _of_floats,
    "repeat": _has_dimensions,
    "right_shift": _shifts_within_type,
    "sign": _of_integers,
    "split": _splits_where_elements_are,
    "squeeze": _squeezes_ones,
}
