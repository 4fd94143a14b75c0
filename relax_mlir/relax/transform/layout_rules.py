"""How operators take tensors whose axes are in another order.

The order of a tensor says for each of its axes which axis of the original it is: NHWC is
(0, 2, 3, 1) where NCHW was before. A tuple has a list of orders, anything else None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.objects.expr import Call, Expr, Op, PrimValue, Tuple
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["Desired", "Inferred", "Order", "Orders", "inferred", "initial"]

Order = tuple[int, ...]
Orders = Any  # Order | None | list[Orders]
Desired = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Inferred:
    """How a call is made in other orders.

    Attributes:
        inputs: the orders that its first arguments shall have.
        output: the order of its result.
        attrs: attributes that change.
        args: arguments that are replaced, by number.
    """

    inputs: Sequence[Orders]
    output: Orders
    attrs: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[int, Expr] = field(default_factory=dict)


Rule = Callable[[Call, Sequence[Any], Desired], "Inferred | None"]


def initial(info: StructInfo | None) -> Orders:
    """The order in which tensors are written down."""
    if isinstance(info, TupleStructInfo):
        return [initial(f) for f in info.fields]
    if isinstance(info, TensorStructInfo) and info.ndim >= 0:
        return tuple(range(info.ndim))
    return None


def inferred(call: Call, orders: Sequence[Orders], desired: Desired) -> Inferred | None:
    """How a call takes arguments in these orders; None if it wants the original ones.

    Raises:
        PassError: ``desired`` asks for what is no order of axes.
    """
    rule = _RULES.get(_name(call))
    is_known = all(
        order is not None
        for arg, order in zip(call.args, orders, strict=True)
        if isinstance(arg.struct_info_or_none(), TensorStructInfo)
    )
    if rule is None or not is_known:
        return None
    return rule(call, orders, desired)


def _name(call: Call) -> str:
    """The operator that is called; empty if something else is."""
    return call.op.name if isinstance(call.op, Op) else ""


def _ndim(arg: Expr) -> int:
    info = arg.struct_info_or_none()
    assert isinstance(info, TensorStructInfo)
    return info.ndim


def _axis(order: Order, axis: int) -> int:
    """Where an axis of the original is."""
    return order.index(axis % len(order))


def _ranked(axes: Iterable[int]) -> Order:
    """Some axes, numbered anew in the same order of size."""
    kept = list(axes)
    numbers = {axis: i for i, axis in enumerate(sorted(kept))}
    return tuple(numbers[axis] for axis in kept)


def _letters(layout: str, order: Order) -> str:
    return "".join(layout[axis] for axis in order)


def _unary(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    return Inferred([orders[0]], orders[0])


def _broadcast(order: Order, ndim: int) -> Order:
    """The order of a tensor of more axes, of which the last ones are in ``order``."""
    more = ndim - len(order)
    return (*range(more), *(axis + more for axis in order))


def _binary(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    first, second = orders
    if not first or not second:
        return Inferred([first, second], first or second)
    if len(first) <= len(second):
        out = _broadcast(first, len(second))
        return Inferred([first, out], out)
    out = _broadcast(second, len(first))
    return Inferred([out, second], out)


def _ternary(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    if len({_ndim(a) for a in call.args}) != 1:
        return None
    return Inferred([orders[0]] * 3, orders[0])


_CONV_LAYOUTS = ("data_layout", "kernel_layout", "out_layout")


def _conv(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    data, kernel, *_ = orders
    wanted = list(desired.get(_name(call), ()))
    now = [call.attrs[name] for name in _CONV_LAYOUTS]
    now[2] = now[2] or now[0]
    if wanted and not _is_packed(call, wanted):
        layouts = [*wanted, wanted[0]][:3]
        made = [
            tuple(old.index(letter) for letter in new)
            for old, new in zip(now, layouts, strict=True)
        ]
    else:
        made = [data, kernel, data]
        layouts = [_letters(old, order) for old, order in zip(now, made, strict=True)]
    attrs: dict[str, Any] = dict(zip(_CONV_LAYOUTS, layouts, strict=True))
    return Inferred(made[:2], made[2], attrs)


def _is_packed(call: Call, wanted: Sequence[str]) -> bool:
    """Whether the layouts have axes in blocks, which no sizes here divide into.

    Raises:
        PassError: the sizes do.
    """
    if all(layout.isalpha() and layout.isupper() for layout in wanted):
        return False
    layouts = (call.attrs["data_layout"], call.attrs["kernel_layout"])
    for arg, plain, layout in zip(call.args, layouts, wanted, strict=False):
        shape = getattr(getattr(arg.struct_info, "shape", None), "values", None)
        if shape is None or not _divides(dict(zip(plain, shape, strict=True)), layout):
            return True
    raise PassError(
        f"`ConvertLayout`: `{_name(call)}`: expected layouts that reorder axes, got "
        f"{list(wanted)}. Axes in blocks are not converted to."
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


def _pool(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order = orders[0]
    out = call.attrs["out_layout"] or call.attrs["layout"]
    attrs = {
        "layout": _letters(call.attrs["layout"], order),
        "out_layout": _letters(out, order),
    }
    return Inferred([order], order, attrs)


def _resize(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order, layout = orders[0], call.attrs["layout"]
    wanted = desired.get(_name(call))
    if wanted:
        order = tuple(layout.index(letter) for letter in wanted[0])
    return Inferred([order], order, {"layout": _letters(layout, order)})


def _reduce(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order, axis = orders[0], call.attrs["axis"]
    axes = range(len(order)) if axis is None else [a % len(order) for a in axis]
    places = tuple(i for i, a in enumerate(order) if a in axes)
    kept = (
        order if call.attrs["keepdims"] else _ranked(a for a in order if a not in axes)
    )
    return Inferred([order], kept, {"axis": places})


def _concat(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    (parts,) = orders
    if not isinstance(parts, list) or None in parts or call.attrs["axis"] is None:
        return None
    order = parts[0]
    axis = _axis(order, call.attrs["axis"])
    return Inferred([[order] * len(parts)], order, {"axis": axis})


def _permute(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order = orders[0]
    ndim = len(order)
    axes = call.attrs["axes"]
    wanted = reversed(range(ndim)) if axes is None else (a % ndim for a in axes)
    made = tuple(order.index(axis) for axis in wanted)
    return Inferred([order], tuple(range(ndim)), {"axes": made})


def _expand(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order, axes = orders[0], call.attrs["axis"]
    ndim = len(order) + len(axes)
    new = {axis % ndim for axis in axes}
    old = [axis for axis in range(ndim) if axis not in new]
    inner = iter(old[axis] for axis in order)
    return Inferred([order], tuple(i if i in new else next(inner) for i in range(ndim)))


def _squeeze(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    order, axis = orders[0], call.attrs["axis"]
    shape = getattr(getattr(call.args[0].struct_info, "shape", None), "values", None)
    if axis is not None:
        axes = {a % len(order) for a in axis}
    elif shape is not None:
        axes = {i for i, size in enumerate(shape) if getattr(size, "value", 0) == 1}
    else:
        return None
    places = tuple(i for i, a in enumerate(order) if a in axes)
    return Inferred(
        [order], _ranked(a for a in order if a not in axes), {"axis": places}
    )


def _split(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    order, info = orders[0], call.struct_info_or_none()
    if not isinstance(info, TupleStructInfo):
        return None
    attrs = {"axis": _axis(order, call.attrs["axis"])}
    return Inferred([order], [order] * len(info.fields), attrs)


def _along(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    order = orders[0]
    if call.attrs["axis"] is None:
        return None
    return Inferred([order], order, {"axis": _axis(order, call.attrs["axis"])})


def _prelu(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order = orders[0]
    attrs = {"axis": _axis(order, call.attrs["axis"])}
    return Inferred([order, orders[1]], order, attrs)


def _slice(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    order, axes = orders[0], call.args[1]
    if not isinstance(axes, Tuple):
        return None
    scalars = [a.value for a in axes.fields if isinstance(a, PrimValue)]
    numbers = [getattr(value, "value", None) for value in scalars]
    if len(numbers) != len(axes.fields) or None in numbers:
        return None
    made = Tuple([PrimValue(_axis(order, n)) for n in numbers if n is not None])
    return Inferred([order], order, args={1: made})


def _batch_norm(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    order = orders[0]
    attrs = {"axis": _axis(order, call.attrs["axis"])}
    return Inferred([order, *[(0,)] * 4], [order, (0,), (0,)], attrs)


def _norm(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred | None:
    order, axes = orders[0], call.attrs["axes"]
    channel = call.attrs.get("channel_axis")
    places = tuple(_axis(order, axis) for axis in axes)
    if channel is None and list(places) != sorted(places):
        return None  # the weights would have to be reordered, too
    attrs: dict[str, Any] = {"axes": places}
    if channel is not None:
        attrs["channel_axis"] = _axis(order, channel)
    weights = [tuple(range(_ndim(arg))) for arg in call.args[1:]]
    return Inferred([order, *weights], order, attrs)


def _dropout(call: Call, orders: Sequence[Any], desired: Desired) -> Inferred:
    return Inferred([orders[0]], [orders[0], orders[0]])


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
    _along: ("flip", "repeat", "nn.softmax"),
    _prelu: ("nn.prelu",),
    _slice: ("strided_slice",),
    _batch_norm: ("nn.batch_norm",),
    _norm: ("nn.layer_norm", "nn.group_norm", "nn.instance_norm", "nn.rms_norm"),
    _dropout: ("nn.dropout",),
}
_RULES: Mapping[str, Rule] = {
    f"relax.{name}": rule for rule, names in _NAMES.items() for name in names
}
