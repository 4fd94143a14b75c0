"""Checks and result rules in which Relax differs from the dialect's operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.objects.expr.struct_info import (
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["check_operands", "ranks_only", "relax_result_info", "result_from_data"]

# Operands of an operation that must have equal element types; `void` is one of them.
_OF_ONE_TYPE: Mapping[str, Sequence[str]] = {
    "nn_batch_norm": ("data", "gamma", "beta", "moving_mean", "moving_var"),
    "nn_group_norm": ("data", "gamma", "beta"),
    "nn_instance_norm": ("data", "gamma", "beta"),
    "nn_layer_norm": ("data", "gamma", "beta"),
    "nn_rms_norm": ("data", "weight"),
    "scatter_nd": ("data", "updates"),
}
# Operands whose rank is the number of ``axes``, or 1 if there is a channel axis.
_OF_THE_AXES: Mapping[str, Sequence[str]] = {
    "nn_batch_norm": ("gamma", "beta", "moving_mean", "moving_var"),
    "nn_group_norm": ("gamma", "beta"),
    "nn_instance_norm": ("gamma", "beta"),
    "nn_layer_norm": ("gamma", "beta"),
    "nn_rms_norm": ("weight",),
}
# Operations whose result has the data operand's struct info, including its shape expression.
_AS_DATA = frozenset(
    {
        *("nn_batch_norm", "nn_group_norm", "nn_instance_norm", "nn_layer_norm"),
        *("nn_prelu", "nn_rms_norm", "reverse_sequence"),
    }
)
# Those whose result shape is unknown unless the shapes of the weights provably match.
_AS_FITTING_DATA = frozenset({"nn_batch_norm", "nn_layer_norm", "nn_rms_norm"})
# Operations whose result has the data operand's element type, regardless of what is stored.
_OF_DATA_TYPE = frozenset(
    {"index_put", "scatter_elements", "scatter_nd", "slice_scatter"}
)
# Operations whose result keeps only its rank if an operand's shape is unknown.
_RANKS_ALONE = frozenset({"gather_nd", "matmul", "multinomial_from_uniform", "take"})
# Operations whose result is unknown if the data operand's rank is unknown.
_LIKE_DATA = frozenset(
    {
        *("dynamic_strided_slice", "gather_elements", "index_put"),
        *("multinomial_from_uniform", "reverse_sequence", "scatter_elements"),
        *("scatter_nd", "slice_scatter"),
    }
)


def check_operands(
    kind: type[RelaxOperation],
    attrs: Mapping[str, Any],  # Any: the type depends on the attribute
    infos: Sequence[StructInfo],
) -> None:
    """Rejects operands that the dialect's operation accepts and Relax does not.

    Raises:
        ValueError: an operand has an invalid rank or element type.
    """
    given = dict(zip(kind.operand_fields, infos, strict=False))
    known = {n: i for n, i in given.items() if isinstance(i, TensorStructInfo)}
    _check_types(kind, known)
    is_channel = "axis" in attrs or "channel_axis" in attrs
    for name in _OF_THE_AXES.get(kind.SHORT_NAME, ()):
        expected = 1 if is_channel else len(attrs["axes"])
        if name in known and known[name].ndim != expected:
            raise ValueError(f"{name}: expected rank {expected}, got {known[name]}")
    is_flat = kind.SHORT_NAME == "take" and attrs.get("axis") is None
    if is_flat and "x" in known and known["x"].ndim != 1:
        raise ValueError(
            f"x: expected a vector because no axis is given, got {known['x']}"
        )


def _check_types(
    kind: type[RelaxOperation], known: Mapping[str, TensorStructInfo]
) -> None:
    names = _OF_ONE_TYPE.get(kind.SHORT_NAME, ())
    types = {known[name].dtype for name in names if name in known}
    if kind.SHORT_NAME == "power":
        names, types = ("x1", "x2"), {i.dtype for i in known.values()} - {"void"}
    if len(types) > 1:
        raise ValueError(
            f"{', '.join(names)}: expected one element type, got {sorted(types)}"
        )
    indices = known.get("indices")
    if kind.SHORT_NAME != "gather_nd" or indices is None:
        return
    if indices.dtype not in ("int64", "void"):
        raise ValueError(f"indices: expected int64, got {indices.dtype}")


def result_from_data(
    kind: type[RelaxOperation],
    attrs: Mapping[str, Any],  # Any: the type depends on the attribute
    infos: Sequence[StructInfo],
) -> StructInfo | None:
    """The part of the result that the data operand alone determines; None in other cases."""
    data = infos[0] if infos else None
    if kind.SHORT_NAME not in _LIKE_DATA or not isinstance(data, TensorStructInfo):
        return None
    dtype = str(attrs.get("dtype") or data.dtype)
    tensors = list(_tensors_in(infos))
    if data.ndim < 0 or (
        kind.SHORT_NAME == "gather_elements" and _has_unknown_rank(tensors)
    ):
        return TensorStructInfo(dtype=dtype)
    is_unknown = any(tensor.known_sizes is None for tensor in tensors)
    if kind.SHORT_NAME == "scatter_nd" and (is_unknown or data.shape_var is not None):
        shape = data.shape if isinstance(data.shape, ShapeExpr) else None
        return data.replace(shape=shape, dtype=dtype, vdevice=None)
    return None


def _has_unknown_rank(tensors: Sequence[TensorStructInfo]) -> bool:
    return any(tensor.ndim < 0 for tensor in tensors)


def relax_result_info(
    kind: type[RelaxOperation],
    infos: Sequence[StructInfo],
    inferred: StructInfo,
    *,
    is_certain: bool,
) -> StructInfo:
    """Relax's struct info of a result, which may be less precise than the dialect's.

    Args:
        kind: the operation class.
        infos: struct info of the operands.
        inferred: the inferred struct info of the result.
        is_certain: whether the operands' sizes are proven to match.
    """
    name, data = kind.SHORT_NAME, infos[0] if infos else None
    is_unknown = any(not isinstance(t.shape, ShapeExpr) for t in _tensors_in(infos))
    if name in _RANKS_ALONE and is_unknown:
        return ranks_only(inferred)
    if not isinstance(data, TensorStructInfo):
        return inferred
    if name in _AS_FITTING_DATA and not is_certain:
        return ranks_only(inferred)
    if name in _AS_DATA:
        rest = inferred.fields[1:] if isinstance(inferred, TupleStructInfo) else ()
        return TupleStructInfo([data, *rest]) if rest else data
    if name in _OF_DATA_TYPE and isinstance(inferred, TensorStructInfo):
        return inferred.replace(dtype=data.dtype)
    return inferred


def ranks_only(info: StructInfo) -> StructInfo:
    """Struct info of tensors reduced to element type, device and rank."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([ranks_only(part) for part in info.fields])
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    return info


def _tensors_in(infos: Sequence[StructInfo]) -> Iterator[TensorStructInfo]:
    for info in infos:
        if isinstance(info, TupleStructInfo):
            yield from _tensors_in(info.fields)
        elif isinstance(info, TensorStructInfo):
            yield info
