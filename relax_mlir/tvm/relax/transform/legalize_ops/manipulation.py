"""Legalization rules of shape and data-movement operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Var
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.op.calls import call_tir
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    te_rule,
    tensor_info,
    tuple_fields,
)
from relax_mlir.tvm.tir import IndexMap, Schedule

__all__ = ["RULES"]


def _shape_argument_rule(te_func: Callable[..., Any]) -> LegalizeFunc:
    """A rule whose second argument is a shape, or a tensor of that shape."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        x, shape = call.args
        if isinstance(shape, Var):
            value = builder.lookup_binding(shape)
            shape = value if isinstance(value, ShapeExpr) else shape
        return builder.call_te(te_func, x, shape, primfunc_name_hint=te_func.__name__)

    return rule


def _output_shape_rule(te_func: Callable[..., Any]) -> LegalizeFunc:
    """A rule that passes the output shape."""

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


def _concat(builder: BlockBuilder, call: Call) -> Expr:
    fields = tuple_fields(builder, call.args[0])
    axis = call.attrs.get("axis")
    return builder.call_te(topi.concatenate, fields, 0 if axis is None else axis)


def _expand_dims(x: te.Tensor, axis: Sequence[Any]) -> te.Tensor:
    rank = x.ndim + len(axis)
    new_axes = {int(a) % rank for a in axis}
    kept_axes = [i for i in range(rank) if i not in new_axes]
    sizes = iter(x.shape)
    shape = [1 if i in new_axes else next(sizes) for i in range(rank)]
    return te.compute(shape, lambda *i: x(*(i[k] for k in kept_axes)), "expand_dims")


def _repeat(x: te.Tensor, repeats: int, axis: int | None) -> te.Tensor:
    if axis is None:
        count = x.shape[0]
        for size in x.shape[1:]:
            count = count * size
        x = topi.reshape(x, (count,))
    return topi.repeat(x, int(repeats), int(axis or 0))


def _layout_transform(builder: BlockBuilder, call: Call) -> Expr:
    """Copies the tensor; the output buffer then gets the layout of the index map.

    The schedule needs the inverse of the map; without one the operator stays: ``i * 5 + j``
    has an inverse for five columns, but there may be fewer.
    """
    (x,), info = call.args, tensor_info(call)
    name, fill = "te_layout_transform", call.attrs["pad_value"]
    index_map = _parse_index_map(call.attrs["index_map"])
    try:
        _, padding = index_map.non_surjective_inverse(_sizes(x))
    except ValueError:
        return call
    if not isinstance(padding, prim.IntImm):
        name += "_with_pad"

    def copy(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *indices: data(*indices), name)

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


def _parse_index_map(text: str) -> IndexMap:
    """Parses the text of an affine map."""
    dims, _, results = text.partition(" -> ")
    python_text = results.replace("floordiv", "//").replace("mod", "%")
    return IndexMap.from_text(f"lambda {dims.strip('()')}: {python_text[:-1]},)")


RULES: Mapping[str, LegalizeFunc] = {
    "broadcast_to": _shape_argument_rule(topi.broadcast_to),
    "reshape": _shape_argument_rule(topi.reshape),
    "collapse_sum_to": _shape_argument_rule(topi.collapse_sum),
    "collapse_sum_like": _output_shape_rule(topi.collapse_sum),
    "flatten": _output_shape_rule(topi.reshape),
    "nn.batch_flatten": _output_shape_rule(topi.reshape),
    "concat": _concat,
    "layout_transform": _layout_transform,
    "expand_dims": te_rule(_expand_dims, "expand_dims", "axis"),
    "permute_dims": te_rule(topi.transpose, None, "axes"),
    "split": te_rule(topi.split, None, "indices_or_sections", "axis"),
    "squeeze": te_rule(topi.squeeze, None, "axis"),
    "repeat": te_rule(_repeat, "repeat", "repeats", "axis"),
    "tile": te_rule(topi.tile, None, "repeats"),
    "flip": te_rule(topi.flip, None, "axis"),
    "reverse_sequence": te_rule(topi.reverse_sequence, None, "seq_axis", "batch_axis"),
}
