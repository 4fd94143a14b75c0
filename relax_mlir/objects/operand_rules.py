"""What Relax asks of operands, and says of results, where our operations differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.objects.struct_info import (
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["check_operands", "from_data_alone", "said_of_result", "without_sizes"]

# Which operands of an operation have one element type; what is not known is a type too.
_OF_ONE_TYPE: Mapping[str, Sequence[str]] = {
    "nn_batch_norm": ("data", "gamma", "beta", "moving_mean", "moving_var"),
    "nn_group_norm": ("data", "gamma", "beta"),
    "nn_instance_norm": ("data", "gamma", "beta"),
    "nn_layer_norm": ("data", "gamma", "beta"),
    "nn_rms_norm": ("data", "weight"),
    "scatter_nd": ("data", "updates"),
}
# Operands that have as many axes as ``axes`` names, or one for each channel.
_OF_THE_AXES: Mapping[str, Sequence[str]] = {
    "nn_batch_norm": ("gamma", "beta", "moving_mean", "moving_var"),
    "nn_group_norm": ("gamma", "beta"),
    "nn_instance_norm": ("gamma", "beta"),
    "nn_layer_norm": ("gamma", "beta"),
    "nn_rms_norm": ("weight",),
}
# Operations whose results have the shape and type of the data, as it is said.
_AS_DATA = frozenset(
    {
        *("nn_batch_norm", "nn_group_norm", "nn_instance_norm", "nn_layer_norm"),
        *("nn_prelu", "nn_rms_norm", "reverse_sequence"),
    }
)
# Those of them whose sizes are not known where weights are not known to fit.
_AS_FITTING_DATA = frozenset({"nn_batch_norm", "nn_layer_norm", "nn_rms_norm"})
# Operations whose results have the element type of the data, whatever is written there.
_OF_DATA_TYPE = frozenset(
    {"index_put", "scatter_elements", "scatter_nd", "slice_scatter"}
)
# Operations of whose result only the rank is known where a shape is not.
_RANKS_ALONE = frozenset({"gather_nd", "matmul", "multinomial_from_uniform", "take"})
# Operations that say nothing of a result where the rank of the data is not known.
_LIKE_DATA = frozenset(
    {
        *("dynamic_strided_slice", "gather_elements", "index_put"),
        *("multinomial_from_uniform", "reverse_sequence", "scatter_elements"),
        *("scatter_nd", "slice_scatter"),
    }
)


def check_operands(
    kind: type[RelaxOperation],
    attrs: Mapping[str, Any],  # Any: as many types as attributes
    infos: Sequence[StructInfo],
) -> None:
    """Refuse operands that our operation takes and Relax does not.

    Raises:
        ValueError: there are such.
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
            f"x: expected a vector where no axis is given, got {known['x']}"
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


def from_data_alone(
    kind: type[RelaxOperation],
    attrs: Mapping[str, Any],  # Any: as many types as attributes
    infos: Sequence[StructInfo],
) -> StructInfo | None:
    """The result where too little is known of operands to say more than of the data."""
    data = infos[0] if infos else None
    if kind.SHORT_NAME not in _LIKE_DATA or not isinstance(data, TensorStructInfo):
        return None
    dtype = str(attrs.get("dtype") or data.dtype)
    tensors = list(_tensors_in(infos))
    if data.ndim < 0 or (
        kind.SHORT_NAME == "gather_elements" and _has_no_rank(tensors)
    ):
        return TensorStructInfo(dtype=dtype)
    is_open = any(tensor.known_sizes is None for tensor in tensors)
    if kind.SHORT_NAME == "scatter_nd" and (is_open or data.shape_var is not None):
        shape = data.shape if isinstance(data.shape, ShapeExpr) else None
        return data.replace(shape=shape, dtype=dtype, vdevice=None)
    return None


def _has_no_rank(tensors: Sequence[TensorStructInfo]) -> bool:
    return any(tensor.ndim < 0 for tensor in tensors)


def said_of_result(
    kind: type[RelaxOperation],
    infos: Sequence[StructInfo],
    found: StructInfo,
    *,
    is_certain: bool,
) -> StructInfo:
    """What Relax says of a result of which ``found`` is known.

    Args:
        kind: the operation.
        infos: its operands.
        found: what they tell of the result.
        is_certain: whether sizes of operands are known to fit.
    """
    name, data = kind.SHORT_NAME, infos[0] if infos else None
    is_open = any(not isinstance(t.shape, ShapeExpr) for t in _tensors_in(infos))
    if name in _RANKS_ALONE and is_open:
        return without_sizes(found)
    if not isinstance(data, TensorStructInfo):
        return found
    if name in _AS_FITTING_DATA and not is_certain:
        return without_sizes(found)
    if name in _AS_DATA:
        rest = found.fields[1:] if isinstance(found, TupleStructInfo) else ()
        return TupleStructInfo([data, *rest]) if rest else data
    if name in _OF_DATA_TYPE and isinstance(found, TensorStructInfo):
        return found.replace(dtype=data.dtype)
    return found


def without_sizes(info: StructInfo) -> StructInfo:
    """``info`` of tensors whose ranks are known."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([without_sizes(part) for part in info.fields])
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    return info


def _tensors_in(infos: Sequence[StructInfo]) -> Iterator[TensorStructInfo]:
    for info in infos:
        if isinstance(info, TupleStructInfo):
            yield from _tensors_in(info.fields)
        elif isinstance(info, TensorStructInfo):
            yield info
