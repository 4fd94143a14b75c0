"""Legalization rules of gather, scatter, slicing and one-hot."""

from collections.abc import Mapping
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, PrimValue, Tuple
from relax_mlir.objects.expr.struct_info import (
    ShapeStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.prim import intrinsics
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.op.calls import tensor_to_shape
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    te_rule,
    tensor_info,
)
from relax_mlir.tvm.topi.sizes import as_int

__all__ = ["RULES"]


def _take(builder: BlockBuilder, call: Call) -> Expr:
    axis, mode = call.attrs["axis"], call.attrs["mode"]
    return builder.call_te(topi.take, *call.args, axis, mode=mode)


def _scalars(value: Expr) -> list[Any] | None:
    """Returns the scalars in a tuple; None if the tuple is not written out."""
    if not isinstance(value, Tuple):
        return None
    return [f.value if isinstance(f, PrimValue) else f for f in value.fields]


def _strided_slice(builder: BlockBuilder, call: Call) -> Expr:
    data, axes, begin, end, *rest = call.args
    info = axes.struct_info
    assert isinstance(info, TupleStructInfo)
    ones = [prim.IntImm("int64", 1)] * len(info.fields)
    strides = _scalars(rest[0]) if rest else ones
    if _is_surely_empty(begin, end, strides):
        return call  # TOPI clamps bounds only where sizes are constant
    return builder.call_te(
        topi.strided_slice,
        data,
        *map(_scalars, (begin, end)),
        strides,
        _scalars(axes),
        slice_mode="end",
        assume_inbound=call.attrs.get("assume_inbound", True),
    )


def _is_surely_empty(begin: Expr, end: Expr, strides: list[Any] | None) -> bool:
    """Returns whether the bounds alone show that a slice is empty."""
    ends = (_scalars(v) or [] for v in (begin, end))
    triples = zip(*ends, strides or [], strict=False)
    return any(
        first is not None
        and last is not None
        and (first < 0) == (last < 0)
        and (last - first) * (as_int(step) or 0) < 0
        for first, last, step in ((as_int(b), as_int(e), s) for b, e, s in triples)
    )


def _clamp_index(index: Any, extent: Any, low: int) -> Any:
    """Clamps an index into a dimension; negative ones count from the end.

    Args:
        low: the least result: 0, or -1 for negative steps.
    """
    index = prim.Select(index < 0, index + extent, index)
    return prim.Min(prim.Max(index, prim.const(low, "int64")), extent + low)


def _slice_sizes(
    data: te.Tensor, begin: te.Tensor, end: te.Tensor, strides: te.Tensor
) -> te.Tensor:
    """Returns the output shape of a dynamic slice as a tensor."""

    def element(i: Any) -> Any:
        extent: Any = prim.const(-1, "int64")
        for axis, size in enumerate(data.shape):
            extent = prim.Select(i == prim.const(axis, "int64"), size, extent)
        step = strides[i]
        first, last = (_clamp_index(bound[i], extent, -1) for bound in (begin, end))
        down = intrinsics.ceildiv(first - last, -step)
        first, last = (_clamp_index(bound[i], extent, 0) for bound in (begin, end))
        up = intrinsics.ceildiv(last - first, step)
        return prim.Select(step < 0, down, up)

    name = "T_shape_func_strided_slice_dynamic"
    return te.compute((begin.shape[0],), element, name)


def _dynamic_strided_slice(builder: BlockBuilder, call: Call) -> Expr:
    """Computes the output shape at run time and binds it to symbols."""
    sizes = builder.call_te(_slice_sizes, *call.args, primfunc_name_hint="shape_func")
    rank = tensor_info(call.args[0]).ndim
    shape = builder.emit(tensor_to_shape(builder.emit(sizes)))
    variables = [prim.Var("s", "int64") for _ in range(rank)]
    builder.match_cast(shape, ShapeStructInfo(variables))
    return builder.call_te(
        topi.dynamic_strided_slice, *call.args, output_shape=variables
    )


def _move_last_axis_first(indices: te.Tensor) -> te.Tensor:
    """Moves the last dimension of indices to the front, as TOPI expects."""
    rank = indices.ndim
    return topi.transpose(indices, [rank - 1, *range(rank - 1)])


def _scatter_nd(
    data: te.Tensor, indices: te.Tensor, updates: te.Tensor, reduction: str
) -> te.Tensor:
    return topi.scatter_nd(data, _move_last_axis_first(indices), updates, reduction)


RULES: Mapping[str, LegalizeFunc] = {
    "take": _take,
    "strided_slice": _strided_slice,
    "dynamic_strided_slice": _dynamic_strided_slice,
    "scatter_elements": te_rule(topi.scatter_elements, None, "axis", "reduction"),
    "scatter_nd": te_rule(_scatter_nd, "scatter_nd", "reduction"),
}
