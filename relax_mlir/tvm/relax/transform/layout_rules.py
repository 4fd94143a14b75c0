"""Layout inference: axis orders that operators accept and produce.

The order of a tensor lists for each of its axes the original axis: NHWC is (0, 2, 3, 1)
for an original NCHW. A tuple has a list of orders, anything else None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.objects.expr import Call, Expr, Op, PrimValue, Tuple
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "AxisOrder",
    "DesiredLayouts",
    "LayoutConversion",
    "NestedAxisOrder",
    "infer_layout",
    "original_order",
]

AxisOrder = tuple[int, ...]
NestedAxisOrder = Any  # AxisOrder | None | list[NestedAxisOrder]
DesiredLayouts = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class LayoutConversion:
    """The conversion of a call to other axis orders.

    Attributes:
        inputs: the required orders of its leading arguments.
        output: the order of its result.
        attrs: changed attributes.
        args: replaced arguments, by index.
    """

    inputs: Sequence[NestedAxisOrder]
    output: NestedAxisOrder
    attrs: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[int, Expr] = field(default_factory=dict)


Rule = Callable[[Call, Sequence[Any], DesiredLayouts], "LayoutConversion | None"]


def original_order(info: StructInfo | None) -> NestedAxisOrder:
    """Returns the original axis order of tensors: the identity."""
    if isinstance(info, TupleStructInfo):
        return [original_order(f) for f in info.fields]
    if isinstance(info, TensorStructInfo) and info.ndim >= 0:
        return tuple(range(info.ndim))
    return None


def infer_layout(
    call: Call, orders: Sequence[NestedAxisOrder], desired: DesiredLayouts
) -> LayoutConversion | None:
    """Infers the layouts of a call for arguments in these orders; None for original ones.

    Raises:
        PassError: ``desired`` asks for a blocked layout.
    """
    rule = _RULES.get(_operator_name(call))
    is_known = all(
        order is not None
        for arg, order in zip(call.args, orders, strict=True)
        if isinstance(arg.struct_info_or_none(), TensorStructInfo)
    )
    if rule is None or not is_known:
        return None
    return rule(call, orders, desired)


def _operator_name(call: Call) -> str:
    """Returns the name of the called operator; empty for other callees."""
    return call.op.name if isinstance(call.op, Op) else ""


def _ndim(arg: Expr) -> int:
    info = arg.struct_info_or_none()
    assert isinstance(info, TensorStructInfo)
    return info.ndim


def _axis_position(order: AxisOrder, axis: int) -> int:
    """Returns the position of an original axis in an axis order."""
    return order.index(axis % len(order))


def _renumbered(axes: Iterable[int]) -> AxisOrder:
    """Renumbers some axes consecutively, keeping their relative order."""
    kept_axes = list(axes)
    ranks = {axis: i for i, axis in enumerate(sorted(kept_axes))}
    return tuple(ranks[axis] for axis in kept_axes)


def _permuted_layout(layout: str, order: AxisOrder) -> str:
    return "".join(layout[axis] for axis in order)


def _unary(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    return LayoutConversion([orders[0]], orders[0])


def _broadcast(order: AxisOrder, ndim: int) -> AxisOrder:
    """Returns the order of a tensor of higher rank whose trailing axes are in ``order``."""
    extra = ndim - len(order)
    return (*range(extra), *(axis + extra for axis in order))


def _binary(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    first, second = orders
    if not first or not second:
        return LayoutConversion([first, second], first or second)
    if len(first) <= len(second):
        out = _broadcast(first, len(second))
        return LayoutConversion([first, out], out)
    out = _broadcast(second, len(first))
    return LayoutConversion([out, second], out)


def _ternary(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    if len({_ndim(a) for a in call.args}) != 1:
        return None
    return LayoutConversion([orders[0]] * 3, orders[0])


_CONV_LAYOUTS = ("data_layout", "kernel_layout", "out_layout")


def _conv(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    data, kernel, *_ = orders
    desired_layouts = list(desired.get(_operator_name(call), ()))
    current = [call.attrs[name] for name in _CONV_LAYOUTS]
    current[2] = current[2] or current[0]
    if desired_layouts and not _is_blocked(call, desired_layouts):
        layouts = [*desired_layouts, desired_layouts[0]][:3]
        new_orders = [
            tuple(old.index(letter) for letter in new)
            for old, new in zip(current, layouts, strict=True)
        ]
    else:
        new_orders = [data, kernel, data]
        layouts = [
            _permuted_layout(old, order)
            for old, order in zip(current, new_orders, strict=True)
        ]
    attrs: dict[str, Any] = dict(zip(_CONV_LAYOUTS, layouts, strict=True))
    return LayoutConversion(new_orders[:2], new_orders[2], attrs)


def _is_blocked(call: Call, desired_layouts: Sequence[str]) -> bool:
    """Returns whether layouts are blocked and no dimension is divisible by its block.

    Raises:
        PassError: the dimensions are divisible.
    """
    if all(layout.isalpha() and layout.isupper() for layout in desired_layouts):
        return False
    layouts = (call.attrs["data_layout"], call.attrs["kernel_layout"])
    for arg, plain, layout in zip(call.args, layouts, desired_layouts, strict=False):
        shape = getattr(getattr(arg.struct_info, "shape", None), "values", None)
        if shape is None or not _divides(dict(zip(plain, shape, strict=True)), layout):
            return True
    raise PassError(
        f"`ConvertLayout`: `{_operator_name(call)}`: expected layouts that reorder axes, got "
        f"{list(desired_layouts)}. Blocked layouts are not supported."
    )


def _divides(sizes: Mapping[str, Any], layout: str) -> bool:
    digits = ""
    for letter in layout:
        if letter.isdigit():
            digits += letter
        elif letter.islower():
            size = getattr(sizes[letter.upper()], "value", None)
            if size is None or size % int(digits):
                return False
            digits = ""
    return True


def _pool(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order = orders[0]
    out = call.attrs["out_layout"] or call.attrs["layout"]
    attrs = {
        "layout": _permuted_layout(call.attrs["layout"], order),
        "out_layout": _permuted_layout(out, order),
    }
    return LayoutConversion([order], order, attrs)


def _resize(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order, layout = orders[0], call.attrs["layout"]
    desired_layouts = desired.get(_operator_name(call))
    if desired_layouts:
        order = tuple(layout.index(letter) for letter in desired_layouts[0])
    return LayoutConversion([order], order, {"layout": _permuted_layout(layout, order)})


def _reduce(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order, axis = orders[0], call.attrs["axis"]
    axes = range(len(order)) if axis is None else [a % len(order) for a in axis]
    positions = tuple(i for i, a in enumerate(order) if a in axes)
    out_order = (
        order
        if call.attrs["keepdims"]
        else _renumbered(a for a in order if a not in axes)
    )
    return LayoutConversion([order], out_order, {"axis": positions})


def _concat(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    (field_orders,) = orders
    if (
        not isinstance(field_orders, list)
        or None in field_orders
        or call.attrs["axis"] is None
    ):
        return None
    order = field_orders[0]
    axis = _axis_position(order, call.attrs["axis"])
    return LayoutConversion([[order] * len(field_orders)], order, {"axis": axis})


def _permute(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order = orders[0]
    ndim = len(order)
    axes = call.attrs["axes"]
    original_axes = reversed(range(ndim)) if axes is None else (a % ndim for a in axes)
    permuted = tuple(order.index(axis) for axis in original_axes)
    return LayoutConversion([order], tuple(range(ndim)), {"axes": permuted})


def _expand(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order, axes = orders[0], call.attrs["axis"]
    ndim = len(order) + len(axes)
    new = {axis % ndim for axis in axes}
    old = [axis for axis in range(ndim) if axis not in new]
    inner = iter(old[axis] for axis in order)
    return LayoutConversion(
        [order], tuple(i if i in new else next(inner) for i in range(ndim))
    )


def _squeeze(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    order, axis = orders[0], call.attrs["axis"]
    shape = getattr(getattr(call.args[0].struct_info, "shape", None), "values", None)
    if axis is not None:
        axes = {a % len(order) for a in axis}
    elif shape is not None:
        axes = {i for i, size in enumerate(shape) if getattr(size, "value", 0) == 1}
    else:
        return None
    positions = tuple(i for i, a in enumerate(order) if a in axes)
    return LayoutConversion(
        [order], _renumbered(a for a in order if a not in axes), {"axis": positions}
    )


def _split(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    order, info = orders[0], call.struct_info_or_none()
    if not isinstance(info, TupleStructInfo):
        return None
    attrs = {"axis": _axis_position(order, call.attrs["axis"])}
    return LayoutConversion([order], [order] * len(info.fields), attrs)


def _single_axis(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    order = orders[0]
    if call.attrs["axis"] is None:
        return None
    return LayoutConversion(
        [order], order, {"axis": _axis_position(order, call.attrs["axis"])}
    )


def _prelu(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order = orders[0]
    attrs = {"axis": _axis_position(order, call.attrs["axis"])}
    return LayoutConversion([order, orders[1]], order, attrs)


def _slice(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    order, axes = orders[0], call.args[1]
    if not isinstance(axes, Tuple):
        return None
    scalars = [a.value for a in axes.fields if isinstance(a, PrimValue)]
    axis_values = [getattr(value, "value", None) for value in scalars]
    if len(axis_values) != len(axes.fields) or None in axis_values:
        return None
    new_axes = Tuple(
        [PrimValue(_axis_position(order, n)) for n in axis_values if n is not None]
    )
    return LayoutConversion([order], order, args={1: new_axes})


def _batch_norm(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    order = orders[0]
    attrs = {"axis": _axis_position(order, call.attrs["axis"])}
    return LayoutConversion([order, *[(0,)] * 4], [order, (0,), (0,)], attrs)


def _norm(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion | None:
    order, axes = orders[0], call.attrs["axes"]
    channel = call.attrs.get("channel_axis")
    positions = tuple(_axis_position(order, axis) for axis in axes)
    if channel is None and list(positions) != sorted(positions):
        return None  # the weights would need a transposition as well
    attrs: dict[str, Any] = {"axes": positions}
    if channel is not None:
        attrs["channel_axis"] = _axis_position(order, channel)
    weights = [tuple(range(_ndim(arg))) for arg in call.args[1:]]
    return LayoutConversion([order, *weights], order, attrs)


def _dropout(
    call: Call, orders: Sequence[Any], desired: DesiredLayouts
) -> LayoutConversion:
    return LayoutConversion([orders[0]], [orders[0], orders[0]])


_SPATIAL = (1, 2, 3)
_NAMES: Mapping[Rule, Sequence[str]] = {
    _unary: (
        *("abs", "acos", "acosh", "asin", "asinh", "astype", "atan", "atanh"),
        *("bitwise_not", "ceil", "cos", "cosh", "erf", "exp", "floor", "isfinite"),
        *("isinf", "isnan", "log", "logical_not", "negative", "nn.gelu"),
        *("nn.gelu_tanh", "nn.relu", "nn.selu", "nn.silu", "round", "rsqrt"),
        *("sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
    ),
    _binary: (
        *("add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "divide"),
        *("equal", "floor_divide", "floor_mod", "greater", "greater_equal"),
        *("left_shift", "less", "less_equal", "log_add_exp", "logical_and"),
        *("logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply"),
        *("not_equal", "power", "right_shift", "subtract"),
    ),
    _ternary: ("ewise_fma",),
    _conv: tuple(f"nn.conv{n}d{s}" for n in _SPATIAL for s in ("", "_transpose")),
    _pool: tuple(
        f"nn.{kind}_pool{n}d"
        for n in _SPATIAL
        for kind in ("max", "avg", "adaptive_avg")
    ),
    _resize: ("image.resize2d", "image.resize3d"),
    _reduce: ("max", "mean", "min", "prod", "std", "sum", "variance"),
    _concat: ("concat",),
    _permute: ("permute_dims",),
    _expand: ("expand_dims",),
    _squeeze: ("squeeze",),
    _split: ("split",),
    _single_axis: ("flip", "repeat", "nn.softmax"),
    _prelu: ("nn.prelu",),
    _slice: ("strided_slice",),
    _batch_norm: ("nn.batch_norm",),
    _norm: ("nn.layer_norm", "nn.group_norm", "nn.instance_norm", "nn.rms_norm"),
    _dropout: ("nn.dropout",),
}
_RULES: Mapping[str, Rule] = {
    f"relax.{name}": rule for rule, names in _NAMES.items() for name in names
}
