"""Functions that are spelled as operators but build several, or look at what they take."""

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.context import shared_context
from relax_mlir.dialects import dims, shapes
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import OperatorError, shown
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, const
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.op.functions import operator_function
from relax_mlir.tir import IndexMap

__all__ = [
    "attention",
    "layout_transform",
    "linear",
    "masked_fill",
    "relu6",
    "reshape",
]


def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: Any = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """Attention of ``query`` to ``key`` and ``value``; ``bias`` is added to the scores."""
    options = (scale, causal_mask, window_size)
    if bias is None:
        return operator_function("relax.nn.attention")(query, key, value, *options)
    build = operator_function("relax.nn.attention_bias")
    return build(query, key, value, bias, *options)


def layout_transform(
    x: Expr,
    index_map: Any,
    pad_value: Any = None,
    axis_separators: Sequence[Any] | None = None,
    input_axis_separators: Sequence[Any] | None = None,
) -> Call:
    """Every element of ``x`` at the place that a map gives for its own.

    Args:
        x: the tensor.
        index_map: an ``IndexMap``, a function of places, or the text of an affine map.
        pad_value: what stands where the map leads nowhere; None for 0.
        axis_separators, input_axis_separators: none at all: buffers have one axis.

    Raises:
        ValueError: there are separators, or the map is not made of sums, products,
            quotients and remainders.
    """
    separators = (axis_separators, input_axis_separators)
    if any(s is not None and not _is_empty(s) for s in separators):
        raise ValueError(
            "`relax.layout_transform`: expected no axis separators, got "
            f"{shown(axis_separators)} and {shown(input_axis_separators)}"
        )
    if not isinstance(index_map, str):
        is_map = isinstance(index_map, IndexMap)
        found = index_map if is_map else IndexMap.from_func(index_map)
        index_map = _affine_map(found)
    build = operator_function("relax.layout_transform")
    return build(x, index_map, pad_value)


def _is_empty(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def _affine_map(index_map: IndexMap) -> str:
    """An index map as MLIR spells it."""
    places = list(index_map.initial_indices)
    names = {id(var): f"d{i}" for i, var in enumerate(places)}
    made = ", ".join(_affine(term, names) for term in index_map.final_indices)
    text = f"affine_map<({', '.join(names.values())}) -> ({made})>"
    return str(ir.AffineMapAttr(ir.Attribute.parse(text, shared_context())).value)


_AFFINE = {
    prim.Add: "+",
    prim.Sub: "-",
    prim.Mul: "*",
    prim.FloorDiv: "floordiv",
    prim.FloorMod: "mod",
}


def _affine(term: prim.PrimExpr, names: Mapping[int, str]) -> str:
    """A term as an affine expression; every operation is in parentheses."""
    if isinstance(term, prim.IntImm):
        return str(term.value)
    if id(term) in names:
        return names[id(term)]
    if isinstance(term, prim.Cast):
        return _affine(term.value, names)
    sign = _AFFINE.get(type(term))
    if sign is None:
        raise ValueError(
            f"`relax.layout_transform`: `{term}` in the map: expected places, numbers and "
            "`+ - * // %`"
        )
    lhs, rhs = (_affine(child, names) for child in term.children())
    return f"({lhs} {sign} {rhs})"


def linear(
    data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: Any = None
) -> Expr:
    """``data`` times ``weight`` transposed, plus ``bias``.

    Shapes:
        data: [..., k]; weight: [n, k]; bias: [n]; result: [..., n].
    """
    transposed = operator_function("relax.permute_dims")(weight)
    product = operator_function("relax.matmul")(data, transposed, out_dtype)
    return product if bias is None else operator_function("relax.add")(product, bias)


def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """``value`` where ``mask`` holds, ``x`` elsewhere."""
    filled = operator_function("relax.full_like")(x, const(value))
    return operator_function("relax.where")(mask, filled, x)


def relu6(data: Expr) -> Call:
    """Each element, at least 0 and at most 6."""
    return operator_function("relax.clip")(data, 0, 6)


def reshape(x: Expr, shape: Any) -> Call:
    """The same elements, in the same row-major order, in another shape.

    Args:
        x: the tensor.
        shape: its sizes: one may be -1, for what is left over, and some 0, for the size
            of ``x`` at that place; or a value that holds them. Whether symbolic sizes can
            be divided as -1 asks is for the caller to know.

    Raises:
        OperatorError: a -1 or 0 cannot be told, as the shape of ``x`` is not known or does
            not fit.
        TypeError: ``shape`` is a single number.
    """
    build = operator_function("relax.reshape")
    if isinstance(shape, (int, prim.PrimExpr)):
        raise TypeError(f"`relax.reshape`: expected a shape, got {shown(shape)}")
    if not isinstance(shape, (tuple, list, ShapeExpr)):
        return build(x, shape)
    sizes = ShapeExpr(tuple(shape)).values
    if not any(isinstance(s, prim.IntImm) and s.value in (-1, 0) for s in sizes):
        return build(x, sizes)
    info = instance_of(x, Expr, "`relax.reshape`", "a tensor").struct_info
    known = info.known_sizes if isinstance(info, TensorStructInfo) else None
    if known is None:
        raise OperatorError(
            f"`relax.reshape` to {sizes}: expected a tensor of known shape, got {info}"
        )
    names = Symbols()
    try:
        told = _told(names.dims(known), names.dims(sizes))
    except ValueError as error:
        raise OperatorError(f"`relax.reshape`: {error}") from error
    return build(x, names.terms(told))


def _told(old: Sequence[Dim], sizes: Sequence[Dim]) -> Sequence[Dim]:
    """``sizes`` with what -1 and 0 stand for."""
    copied = [
        old[i] if size == 0 and i < len(old) else size for i, size in enumerate(sizes)
    ]
    rest = shapes.product(size for size in copied if size != -1)
    total = shapes.product(old)
    if -1 in copied and not (isinstance(total, int) and isinstance(rest, int)):
        return [dims.floordiv(total, rest) if s == -1 else s for s in copied]
    return shapes.reshape(old, sizes)
