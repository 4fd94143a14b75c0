"""Which operators may compute in half precision, and the types of nested tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relax_mlir.objects.expr import Attrs, Call, Op
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "ALWAYS",
    "FOLLOW",
    "NEVER",
    "Precisions",
    "is_nested_tensor",
    "policy_of",
    "precisions",
    "wider",
    "with_result_type",
]

# Of a tensor the name of its type, "" where it does not matter; of a tuple those of its
# fields; of anything else None.
Precisions = str | tuple[Any, ...] | None

ALWAYS, FOLLOW, NEVER = "always", "follow", "never"

_CONVOLUTIONS = tuple(
    f"nn.conv{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_transpose")
)
_ATTENTIONS = ("nn.attention", "nn.attention_bias", "nn.attention_var_len")
_POOLS = tuple(
    f"nn.{kind}_pool{n}d" for kind in ("adaptive_avg", "avg", "max") for n in (1, 2, 3)
)

# TVM's policies: units for half precision gain from products; the others take what
# comes if all of it is half, and what sums or compares much stays in single precision.
_POLICIES: Mapping[str, str] = {
    **{f"relax.{n}": ALWAYS for n in ("matmul", *_CONVOLUTIONS, *_ATTENTIONS)},
    **{
        f"relax.{n}": FOLLOW
        for n in (
            *_POOLS,
            *("abs", "acos", "acosh", "add", "arange", "asin", "asinh", "astype"),
            *("atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or"),
            *("bitwise_xor", "broadcast_to", "ceil", "concat", "cos", "cosh", "divide"),
            *("dynamic_strided_slice", "equal", "erf", "ewise_fma", "exp"),
            *("expand_dims", "eye", "flatten", "floor", "floor_divide", "floor_mod"),
            *("full", "full_like", "greater", "greater_equal", "hamming_window"),
            *("image.affine_grid", "image.grid_sample", "image.resize2d"),
            *("image.resize3d", "isfinite", "isinf", "isnan", "layout_transform"),
            *("left_shift", "less", "less_equal", "log", "log_add_exp"),
            *("logical_and", "logical_not", "logical_or", "logical_xor", "maximum"),
            *("meshgrid", "minimum", "mod", "multiply", "negative"),
            *("nn.batch_flatten", "nn.dropout", "nn.gelu", "nn.gelu_tanh"),
            *("nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.relu"),
            *("nn.rms_norm", "nn.selu", "nn.silu", "not_equal", "ones"),
            *("permute_dims", "power", "reshape", "right_shift", "round", "rsqrt"),
            *("sigmoid", "sign", "sin", "sinh", "split", "sqrt", "square", "squeeze"),
            *("stack", "strided_slice", "subtract", "tan", "tanh", "trunc"),
            *("vision.roi_align", "vision.roi_pool", "zeros"),
        )
    },
}


def policy_of(call: Call) -> str | None:
    """What a call does about half precision; None if it calls no operator."""
    return _POLICIES.get(call.op.name, NEVER) if isinstance(call.op, Op) else None


def with_result_type(call: Call, dtype: str) -> Attrs:
    """The attributes of a call with another type of the result, where they say it."""
    if "out_dtype" not in call.attrs:
        return call.attrs
    return Attrs({**call.attrs, "out_dtype": dtype})


def is_nested_tensor(info: StructInfo | None) -> bool:
    """Whether something is a tensor, or a tuple of such."""
    if isinstance(info, TupleStructInfo):
        return all(map(is_nested_tensor, info.fields))
    return isinstance(info, TensorStructInfo)


def precisions(info: StructInfo | None, dtype: str | None = None) -> Precisions:
    """The types of tensors: ``dtype`` for all if it is given."""
    if isinstance(info, TupleStructInfo):
        return tuple(precisions(field, dtype) for field in info.fields)
    if isinstance(info, TensorStructInfo):
        return info.dtype if dtype is None else dtype
    return None


_ORDER = ("", "float16", "float32")


def wider(a: Precisions, b: Precisions) -> Precisions:
    """Of two demands on the same tensors the stronger one each."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(wider(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        return max(a, b, key=_ORDER.index)
    return a
