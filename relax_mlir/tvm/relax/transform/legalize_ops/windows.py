"""Legalization rules of convolution, pooling, padding and resizing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.transform.legalize_ops.calls import LegalizeFunc, tensor_info

__all__ = ["RULES"]

_SPATIAL_AXES = {1: "W", 2: "HW", 3: "DHW"}


def _keeps_layout(call: Call, layout: str) -> bool:
    """Returns whether the output has the layout of the data."""
    return call.attrs["out_layout"] in (None, "", call.attrs[layout])


def _conv(rank: int) -> LegalizeFunc:
    name = f"conv{rank}d"

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        attrs = call.attrs
        layouts = attrs["data_layout"], attrs["kernel_layout"]
        is_plain = all(len(layout) == rank + 2 for layout in layouts)
        if not is_plain or not _keeps_layout(call, "data_layout"):
            return call
        dtype = str(attrs["out_dtype"]) if attrs["out_dtype"] else None

        def conv(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
            return topi.nn.conv(
                data,
                weight,
                attrs["strides"],
                attrs["padding"],
                attrs["dilation"],
                attrs["groups"],
                *layouts,
                out_dtype=dtype,
            )

        return builder.call_te(conv, *call.args, primfunc_name_hint=name)

    return rule


def _conv_transpose(rank: int) -> LegalizeFunc:
    name = f"conv{rank}d_transpose"
    letters = _SPATIAL_AXES[rank]
    te_func = getattr(topi.nn, f"group_{name}_nc{letters.lower()}")

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        layouts = call.attrs["data_layout"], call.attrs["kernel_layout"]
        is_plain = layouts == (f"NC{letters}", f"IO{letters}")
        if not is_plain or not _keeps_layout(call, "data_layout"):
            return call
        names = ("strides", "padding", "output_padding", "dilation")
        strides, padding, output_padding, dilation = (
            _ints(call.attrs[n]) for n in names
        )
        dtype, groups = tensor_info(call).dtype, int(call.attrs["groups"])

        def transposed(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
            if any(d != 1 for d in dilation):
                weight = topi.nn.dilate(weight, [1, 1, *dilation], name="kernel_dilate")
            return te_func(
                data, weight, strides, padding, dtype, output_padding, groups
            )

        return builder.call_te(transposed, *call.args, primfunc_name_hint=name)

    return rule


def _ints(values: Sequence[Any]) -> list[int]:
    return [int(value) for value in values]


def _pool(kind: str, rank: int) -> LegalizeFunc:
    te_func: Callable[..., Any] = getattr(topi.nn, f"pool{rank}d")

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        if not _keeps_layout(call, "layout"):
            return call
        attrs = call.attrs
        pads = {}
        if kind == "avg":
            pads["count_include_pad"] = attrs["count_include_pad"]
        return builder.call_te(
            te_func,
            call.args[0],
            kernel=attrs["pool_size"],
            stride=attrs["strides"],
            dilation=attrs["dilation"],
            padding=attrs["padding"],
            pool_type=kind,
            ceil_mode=attrs["ceil_mode"],
            layout=attrs["layout"],
            primfunc_name_hint=f"{kind}_pool{rank}d",
            **pads,
        )

    return rule


def _adaptive_pool(rank: int) -> LegalizeFunc:
    te_func = getattr(topi.nn, "adaptive_pool" + ("" if rank == 2 else f"{rank}d"))

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        if not _keeps_layout(call, "layout"):
            return call
        layout, output_size = call.attrs["layout"], call.attrs["output_size"]

        def pool(data: te.Tensor) -> te.Tensor:
            axes = [layout.index(letter) for letter in _SPATIAL_AXES[rank]]
            sizes = output_size or [data.shape[axis] for axis in axes]
            return te_func(data, sizes, "avg", layout)

        name = f"adaptive_avg_pool{rank}d"
        return builder.call_te(pool, call.args[0], primfunc_name_hint=name)

    return rule


def _pad(builder: BlockBuilder, call: Call) -> Expr:
    widths, mode = call.attrs["pad_width"], call.attrs["pad_mode"]
    ends = {"pad_before": widths[::2], "pad_after": widths[1::2]}
    if mode in ("reflect", "replicate", "circular"):
        name = f"{mode}_pad"
        te_func = getattr(topi.nn, name)
    else:
        name, te_func = "pad", topi.nn.pad
        ends["pad_value"] = call.attrs["pad_value"]
    return builder.call_te(te_func, call.args[0], **ends, primfunc_name_hint=name)


def _resize(name: str) -> LegalizeFunc:
    te_func = getattr(topi.image, name)

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        attrs, (data, size) = call.attrs, call.args
        attr_names = ("roi", "layout", "method", "coordinate_transformation_mode")
        values = {attr: attrs[attr] for attr in (*attr_names, "rounding_method")}
        return builder.call_te(
            te_func,
            data,
            size=size,
            **values,
            bicubic_alpha=attrs["cubic_alpha"],
            bicubic_exclude=attrs["cubic_exclude"],
            extrapolation_value=attrs["extrapolation_value"],
            primfunc_name_hint=name,
        )

    return rule


def _affine_grid(builder: BlockBuilder, call: Call) -> Expr:
    data, size = call.args
    values = getattr(size, "values", ())
    sizes = [getattr(s, "value", None) for s in values]
    if not sizes or None in sizes:
        raise ValueError(
            f"LegalizeOps: relax.image.affine_grid: expected constant sizes, got {size}"
        )
    return builder.call_te(
        topi.image.affine_grid,
        data,
        target_shape=sizes,
        align_corners=call.attrs["align_corners"],
    )


RULES: Mapping[str, LegalizeFunc] = {
    **{f"nn.conv{n}d": _conv(n) for n in _SPATIAL_AXES},
    **{f"nn.conv{n}d_transpose": _conv_transpose(n) for n in _SPATIAL_AXES},
    **{f"nn.{k}_pool{n}d": _pool(k, n) for k in ("max", "avg") for n in _SPATIAL_AXES},
    **{f"nn.adaptive_avg_pool{n}d": _adaptive_pool(n) for n in _SPATIAL_AXES},
    "nn.pad": _pad,
    "image.affine_grid": _affine_grid,
    "image.resize2d": _resize("resize2d"),
    "image.resize3d": _resize("resize3d"),
}
