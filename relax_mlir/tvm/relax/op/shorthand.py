"""Composite builder functions: they emit several operators or preprocess their arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects import shapes
from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.ir.context import shared_context
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, const
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.relax.op.functions import operator_function
from relax_mlir.tvm.tir import IndexMap

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
    """Scaled dot-product attention; ``bias`` is added to the scores."""
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
    """Change the layout of a tensor by an index map.

    Args:
        x: the tensor.
        index_map: an ``IndexMap``, a function from old to new indices, or the text of an
            affine map.
        pad_value: value of new elements that no old index maps to; None for 0.
        axis_separators, input_axis_separators: not supported: buffers are flattened to one
            physical axis.

    Raises:
        ValueError: separators are given, or the map has operations other than ``+``, ``-``,
            ``*``, ``//`` and ``%``.
    """
    separators = (axis_separators, input_axis_separators)
    if any(s is not None and not _is_empty(s) for s in separators):
        raise ValueError(
            "`relax.layout_transform`: expected no axis separators, got "
            f"{short_repr(axis_separators)} and {short_repr(input_axis_separators)}"
        )
    if not isinstance(index_map, str):
        is_map = isinstance(index_map, IndexMap)
        index_map = _affine_map(index_map if is_map else IndexMap.from_func(index_map))
    build = operator_function("relax.layout_transform")
    return build(x, index_map, pad_value)


def _is_empty(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def _affine_map(index_map: IndexMap) -> str:
    """Converts an index map to the text of an MLIR affine map."""
    names = {id(var): f"d{i}" for i, var in enumerate(index_map.initial_indices)}
    results = ", ".join(_affine(expr, names) for expr in index_map.final_indices)
    text = f"affine_map<({', '.join(names.values())}) -> ({results})>"
    return str(ir.AffineMapAttr(ir.Attribute.parse(text, shared_context())).value)


_AFFINE_OPERATORS = {
    prim.Add: "+",
    prim.Sub: "-",
    prim.Mul: "*",
    prim.FloorDiv: "floordiv",
    prim.FloorMod: "mod",
}


def _affine(expr: prim.PrimExpr, names: Mapping[int, str]) -> str:
    """Prints an index as an affine expression, fully parenthesized."""
    if isinstance(expr, prim.IntImm):
        return str(expr.value)
    if id(expr) in names:
        return names[id(expr)]
    if isinstance(expr, prim.Cast):
        return _affine(expr.value, names)
    operator = _AFFINE_OPERATORS.get(type(expr))
    if operator is None:
        raise ValueError(
            f"`relax.layout_transform`: `{expr}` in the index map: expected indices, "
            "integer constants and `+ - * // %`"
        )
    lhs, rhs = (_affine(child, names) for child in expr.children())
    return f"({lhs} {operator} {rhs})"


def linear(
    data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: Any = None
) -> Expr:
    """Linear layer: ``data @ weight.T + bias``.

    Shapes:
        data: [..., k]; weight: [n, k]; bias: [n]; result: [..., n].
    """
    transposed = operator_function("relax.permute_dims")(weight)
    matmul = operator_function("relax.matmul")(data, transposed, out_dtype)
    return matmul if bias is None else operator_function("relax.add")(matmul, bias)


def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """``where(mask, value, x)``."""
    filled = operator_function("relax.full_like")(x, const(value))
    return operator_function("relax.where")(mask, filled, x)


def relu6(data: Expr) -> Call:
    """ReLU6: elements clipped to [0, 6]."""
    return operator_function("relax.clip")(data, 0, 6)


def reshape(x: Expr, shape: Any) -> Call:
    """Reshape a tensor; the row-major order of elements stays.

    Args:
        x: the tensor.
        shape: the new shape: a list of sizes, or a shape value. One size may be -1, which
            is inferred; 0 copies the size of ``x`` on that axis. With symbolic sizes the
            caller guarantees that the division for -1 is exact.

    Raises:
        OperatorError: a -1 or 0 cannot be resolved, because the shape of ``x`` is unknown
            or does not fit.
        TypeError: ``shape`` is a single number.
    """
    build = operator_function("relax.reshape")
    if isinstance(shape, (int, prim.PrimExpr)):
        raise TypeError(f"`relax.reshape`: expected a shape, got {short_repr(shape)}")
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
        resolved = _resolve_sizes(names.dims(known), names.dims(sizes))
    except ValueError as error:
        raise OperatorError(f"`relax.reshape`: {error}") from error
    return build(x, names.exprs(resolved))


def _resolve_sizes(old: Sequence[Dim], sizes: Sequence[Dim]) -> Sequence[Dim]:
    """Replaces -1 and 0 in the target shape of a reshape by sizes."""
    copied = [
        old[i] if size == 0 and i < len(old) else size for i, size in enumerate(sizes)
    ]
    rest = shapes.product(size for size in copied if size != -1)
    total = shapes.product(old)
    if -1 in copied and not (isinstance(total, int) and isinstance(rest, int)):
        return [dims.floordiv(total, rest) if s == -1 else s for s in copied]
    return shapes.reshape(old, sizes)
