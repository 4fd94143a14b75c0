"""Rules of operators that move elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir import te, topi
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Tuple, Var
from relax_mlir.objects.struct_info import TupleStructInfo
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.op.calls import call_tir
from relax_mlir.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    fields_of,
    passing,
    tensor_info,
)
from relax_mlir.tir import IndexMap, Schedule

__all__ = ["RULES"]


def _shaped(te_func: Callable[..., Any]) -> LegalizeFunc:
    """The second argument is a shape, or a tensor that has the shape."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        x, shape = call.args
        if isinstance(shape, Var):
            bound = builder.lookup_binding(shape)
            shape = bound if isinstance(bound, ShapeExpr) else shape
        return builder.call_te(te_func, x, shape, primfunc_name_hint=te_func.__name__)

    return rule


def _to_result_shape(te_func: Callable[..., Any]) -> LegalizeFunc:
    """The shape is that of the result."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        shape = tensor_info(call).shape
        assert isinstance(shape, ShapeExpr)
        return builder.call_te(
            te_func,
            call.args[0],
            list(shape.values),
            primfunc_name_hint=te_func.__name__,
        )

    return rule


def _of_fields(te_func: Callable[..., Any], attr: str, default: Any) -> LegalizeFunc:
    """The argument is a tuple of tensors."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        fields = fields_of(builder, call.args[0])
        value = call.attrs.get(attr)
        value = default if value is None else value
        made = builder.call_te(
            te_func, fields, value, primfunc_name_hint=te_func.__name__
        )
        is_tuple = isinstance(call.struct_info, TupleStructInfo)
        is_one = is_tuple and not isinstance(made.struct_info, TupleStructInfo)
        return Tuple([builder.emit(made)]) if is_one else made

    return rule


def _expand_dims(x: te.Tensor, axis: Sequence[Any]) -> te.Tensor:
    rank = x.ndim + len(axis)
    new = {int(a) % rank for a in axis}
    kept = [i for i in range(rank) if i not in new]
    sizes = iter(x.shape)
    shape = [1 if i in new else next(sizes) for i in range(rank)]
    return te.compute(shape, lambda *i: x(*(i[k] for k in kept)), "expand_dims")


def _repeat(x: te.Tensor, repeats: int, axis: int | None) -> te.Tensor:
    if axis is None:
        count = x.shape[0]
        for size in x.shape[1:]:
            count = count * size
        x = topi.reshape(x, (count,))
    return topi.repeat(x, int(repeats), int(axis or 0))


def _layout_transform(builder: BlockBuilder, call: Call) -> Expr:
    """A copy, whose result is then laid out as the map says.

    A schedule needs the inverse of the map. The operator stays where none is known: of
    ``i * 5 + j`` there is one for five columns, but there may be fewer.
    """
    (x,), info = call.args, tensor_info(call)
    name, fill = "te_layout_transform", call.attrs["pad_value"]
    index_map = _index_map(call.attrs["index_map"])
    try:
        _, padding = index_map.non_surjective_inverse(_sizes(x))
    except ValueError:
        return call
    if not isinstance(padding, prim.IntImm):
        name += "_with_pad"

    def copy(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *places: data(*places), name)

    program, args, *_ = te.gen_call_tir_inputs(copy, x)
    schedule = Schedule(program)
    fill = prim.const(fill or 0, info.dtype)
    schedule.transform_layout(name, ("write", 0), index_map, fill)
    laid_out = builder.add_func(schedule.mod["main"], name)
    return call_tir(laid_out, args, info)


def _sizes(x: Expr) -> Sequence[Any]:
    shape = tensor_info(x).shape
    assert isinstance(shape, ShapeExpr)
    return shape.values


def _index_map(text: str) -> IndexMap:
    """The map that an affine one is."""
    places, _, made = text.partition(" -> ")
    written = made.replace("floordiv", "//").replace("mod", "%")
    return IndexMap.from_text(f"lambda {places.strip('()')}: {written[:-1]},)")


RULES: Mapping[str, LegalizeFunc] = {
    "broadcast_to": _shaped(topi.broadcast_to),
    "reshape": _shaped(topi.reshape),
    "collapse_sum_to": _shaped(topi.collapse_sum),
    "collapse_sum_like": _to_result_shape(topi.collapse_sum),
    "flatten": _to_result_shape(topi.reshape),
    "nn.batch_flatten": _to_result_shape(topi.reshape),
    "concat": _of_fields(topi.concatenate, "axis", 0),
    "stack": _of_fields(topi.stack, "axis", 0),
    "meshgrid": _of_fields(topi.meshgrid, "indexing", "ij"),
    "layout_transform": _layout_transform,
    "expand_dims": passing(_expand_dims, "expand_dims", "axis"),
    "permute_dims": passing(topi.transpose, None, "axes"),
    "split": passing(topi.split, None, "indices_or_sections", "axis"),
    "squeeze": passing(topi.squeeze, None, "axis"),
    "repeat": passing(_repeat, "repeat", "repeats", "axis"),
    "tile": passing(topi.tile, None, "repeats"),
    "flip": passing(topi.flip, None, "axis"),
    "reverse_sequence": passing(topi.reverse_sequence, None, "seq_axis", "batch_axis"),
}
