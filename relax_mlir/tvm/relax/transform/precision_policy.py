"""Mixed-precision policy of operators, and element types of nested tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relax_mlir.objects.expr import Attrs, Call, Op
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "ALWAYS_HALF",
    "FOLLOW_OPERANDS",
    "NEVER_HALF",
    "NestedDtypes",
    "is_nested_tensor",
    "join_dtypes",
    "nested_dtypes",
    "precision_policy",
    "with_out_dtype",
]

# Element type of a tensor, "" for no requirement; a tuple of those of its fields for a
# tuple; None for anything else.
NestedDtypes = str | tuple[Any, ...] | None

ALWAYS_HALF, FOLLOW_OPERANDS, NEVER_HALF = "always", "follow", "never"

_CONVOLUTIONS = tuple(
    f"nn.conv{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_transpose")
)
_ATTENTIONS = ("nn.attention", "nn.attention_bias", "nn.attention_var_len")
_POOLS = tuple(
    f"nn.{kind}_pool{n}d" for kind in ("adaptive_avg", "avg", "max") for n in (1, 2, 3)
)

# TVM's policies: contractions profit from half-precision units; `FOLLOW_OPERANDS` use half
# precision if all operands are half; long reductions stay in single precision.
_POLICIES: Mapping[str, str] = {
    **{f"relax.{n}": ALWAYS_HALF for n in ("matmul", *_CONVOLUTIONS, *_ATTENTIONS)},
    **{
        f"relax.{n}": FOLLOW_OPERANDS
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


def precision_policy(call: Call) -> str | None:
    """Returns the mixed-precision policy of a call; None if it calls no operator."""
    return _POLICIES.get(call.op.name, NEVER_HALF) if isinstance(call.op, Op) else None


def with_out_dtype(call: Call, dtype: str) -> Attrs:
    """Returns the attributes of a call with another ``out_dtype``, if it has one."""
    if "out_dtype" not in call.attrs:
        return call.attrs
    return Attrs({**call.attrs, "out_dtype": dtype})


def is_nested_tensor(info: StructInfo | None) -> bool:
    """Returns whether struct info is a tensor, or a tuple of nested tensors."""
    if isinstance(info, TupleStructInfo):
        return all(map(is_nested_tensor, info.fields))
    return isinstance(info, TensorStructInfo)


def nested_dtypes(info: StructInfo | None, dtype: str | None = None) -> NestedDtypes:
    """Returns the element types of nested tensors: ``dtype`` for all if given."""
    if isinstance(info, TupleStructInfo):
        return tuple(nested_dtypes(field, dtype) for field in info.fields)
    if isinstance(info, TensorStructInfo):
        return info.dtype if dtype is None else dtype
    return None


_DTYPE_ORDER = ("", "float16", "float32")


def join_dtypes(a: NestedDtypes, b: NestedDtypes) -> NestedDtypes:
    """Joins two requirements on the same tensors; the wider type wins for each."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(join_dtypes(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        return max(a, b, key=_DTYPE_ORDER.index)
    return a
