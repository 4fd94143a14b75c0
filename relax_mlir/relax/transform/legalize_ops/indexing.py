"""Rules of operators that read or write at computed places."""

from collections.abc import Mapping
from typing import Any

from relax_mlir import te, topi
from relax_mlir.objects import functions, prim
from relax_mlir.objects.expr import Call, Expr, PrimValue, Tuple, TupleGetItem
from relax_mlir.objects.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.op.calls import tensor_to_shape
from relax_mlir.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    fields_of,
    passing,
    tensor_info,
)
from relax_mlir.topi.sizes import as_int

__all__ = ["RULES"]


def _take(builder: BlockBuilder, call: Call) -> Expr:
    axis, mode = call.attrs["axis"], call.attrs["mode"]
    return builder.call_te(topi.take, *call.args, axis, mode=mode)


def _scalars(value: Expr) -> list[Any] | None:
    """The scalars in a tuple; None if it is not known which they are."""
    if not isinstance(value, Tuple):
        return None
    return [f.value if isinstance(f, PrimValue) else f for f in value.fields]


def _strided_slice(builder: BlockBuilder, call: Call) -> Expr:
    data, axes, begin, end, *rest = call.args
    info = axes.struct_info
    assert isinstance(info, TupleStructInfo)
    ones = [prim.IntImm("int64", 1)] * len(info.fields)
    strides = _scalars(rest[0]) if rest else ones
    if _ends_before_it_begins(begin, end, strides):
        return call  # TOPI clamps ends where sizes are known alone
    return builder.call_te(
        topi.strided_slice,
        data,
        *map(_scalars, (begin, end)),
        strides,
        _scalars(axes),
        slice_mode="end",
        assume_inbound=call.attrs.get("assume_inbound", True),
    )


def _ends_before_it_begins(begin: Expr, end: Expr, strides: list[Any] | None) -> bool:
    """Whether a slice is known to be empty by its ends, whatever the size is."""
    ends = (_scalars(v) or [] for v in (begin, end))
    triples = zip(*ends, strides or [], strict=False)
    return any(
        first is not None
        and last is not None
        and (first < 0) == (last < 0)
        and (last - first) * (as_int(step) or 0) < 0
        for first, last, step in ((as_int(b), as_int(e), s) for b, e, s in triples)
    )


def _inside(index: Any, extent: Any, low: int) -> Any:
    """An index that counts from the end if negative, inside of the dimension.

    Args:
        low: the least that it is: 0, or -1 for steps downwards.
    """
    index = prim.Select(index < 0, index + extent, index)
    return prim.Min(prim.Max(index, prim.const(low, "int64")), extent + low)


def _slice_sizes(
    data: te.Tensor, begin: te.Tensor, end: te.Tensor, strides: te.Tensor
) -> te.Tensor:
    """How many elements a slice has in every dimension."""

    def element(i: Any) -> Any:
        extent: Any = prim.const(-1, "int64")
        for place, size in enumerate(data.shape):
            extent = prim.Select(i == prim.const(place, "int64"), size, extent)
        step = strides[i]
        first, last = (_inside(place[i], extent, -1) for place in (begin, end))
        down = functions.ceildiv(first - last, -step)
        first, last = (_inside(place[i], extent, 0) for place in (begin, end))
        up = functions.ceildiv(last - first, step)
        return prim.Select(step < 0, down, up)

    name = "T_shape_func_strided_slice_dynamic"
    return te.compute((begin.shape[0],), element, name)


def _dynamic_strided_slice(builder: BlockBuilder, call: Call) -> Expr:
    """First the sizes are computed, which then are sizes of the module."""
    sizes = builder.call_te(_slice_sizes, *call.args, primfunc_name_hint="shape_func")
    rank = tensor_info(call.args[0]).ndim
    shape = builder.emit(tensor_to_shape(builder.emit(sizes)))
    variables = [prim.Var("s", "int64") for _ in range(rank)]
    builder.match_cast(shape, ShapeStructInfo(variables))
    return builder.call_te(
        topi.dynamic_strided_slice, *call.args, output_shape=variables
    )


def _gather_elements(builder: BlockBuilder, call: Call) -> Expr:
    data, indices = call.args
    return builder.call_te(topi.gather, data, int(call.attrs["axis"]), indices)


def _depth_first(indices: te.Tensor) -> te.Tensor:
    """Indices whose last dimension comes first."""
    rank = indices.ndim
    return topi.transpose(indices, [rank - 1, *range(rank - 1)])


def _gather_nd(data: te.Tensor, indices: te.Tensor, batch_dims: int) -> te.Tensor:
    return topi.gather_nd(data, _depth_first(indices), batch_dims)


def _scatter_nd(
    data: te.Tensor, indices: te.Tensor, updates: te.Tensor, reduction: str
) -> te.Tensor:
    return topi.scatter_nd(data, _depth_first(indices), updates, reduction)


def _index_tensor(builder: BlockBuilder, call: Call) -> Expr:
    data, indices = call.args
    info = indices.struct_info
    assert isinstance(info, TupleStructInfo)
    fields = [builder.emit(TupleGetItem(indices, i)) for i in range(len(info.fields))]
    return builder.call_te(
        topi.index_tensor, data, fields, primfunc_name_hint="index_tensor"
    )


def _index_put(builder: BlockBuilder, call: Call) -> Expr:
    data, indices, values = call.args
    return builder.call_te(
        topi.index_put,
        data,
        fields_of(builder, indices),
        values,
        accumulate=call.attrs["accumulate"],
    )


def _one_hot(builder: BlockBuilder, call: Call) -> Expr:
    indices, *values = call.args
    infos = [value.struct_info for value in values]
    kinds = [info.dtype for info in infos if isinstance(info, PrimStructInfo)]
    if len(kinds) < 2 or kinds[0] != kinds[1]:
        raise ValueError(
            "one_hot: expected on_value and off_value as scalars of one dtype, got "
            + " and ".join(map(str, infos))
        )
    depth, axis = call.attrs["depth"], call.attrs["axis"]
    return builder.call_te(topi.one_hot, indices, *values, depth, axis, kinds[0])


RULES: Mapping[str, LegalizeFunc] = {
    "take": _take,
    "strided_slice": _strided_slice,
    "dynamic_strided_slice": _dynamic_strided_slice,
    "gather_elements": _gather_elements,
    "gather_nd": passing(_gather_nd, "te_gather_nd", "batch_dims"),
    "scatter_elements": passing(topi.scatter_elements, None, "axis", "reduction"),
    "scatter_nd": passing(_scatter_nd, "scatter_nd", "reduction"),
    "index_put": _index_put,
    "index_tensor": _index_tensor,
    "one_hot": _one_hot,
}
