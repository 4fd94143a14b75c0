"""Expansion of scalar intrinsics that the MLIR math dialect lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import Scalar, attribute_names
from relax_mlir.dialects.tir.scalars import constant, emit_same_type
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import erase, has_uses, replace

__all__ = ["expand_intrinsics", "is_expandable"]


def _sigmoid(x: Scalar) -> Scalar:
    return 1.0 / (emit_same_type("math.exp", -x) + 1.0)


def _exp10(x: Scalar) -> Scalar:
    return emit_same_type("math.powf", constant(10.0, x.dtype), x)


def _hypot(x: Scalar, y: Scalar) -> Scalar:
    return emit_same_type("math.sqrt", x * x + y * y)


def _ldexp(x: Scalar, exponent: Scalar) -> Scalar:
    if exponent.dtype != x.dtype:
        raise ValueError("`ldexp`: expected both arguments of one type")
    return x * emit_same_type("math.exp2", exponent)


_EXPANSIONS: Mapping[str, Callable[..., Scalar]] = {
    "sigmoid": _sigmoid,
    "exp10": _exp10,
    "hypot": _hypot,
    "ldexp": _ldexp,
}


def is_expandable(op: ir.OpView) -> bool:
    """Whether a ``tir.call`` is one of these intrinsics, on floats."""
    if ir.StringAttr(op.attributes["callee"]).value not in _EXPANSIONS:
        return False
    types = {v.type for v in tensors.tuple_elements(op.operands[0])}
    is_float = all(isinstance(t, ir.FloatType) for t in types)
    return len(types) == 1 and is_float


def expand_intrinsics(root: ir.Operation | ir.OpView) -> None:
    """Expands all such calls below ``root`` to arithmetic."""
    for op in list(walk(root)):
        if op.operation.name != "tir.call" or not is_expandable(op):
            continue
        type_ = dtype(ir.StringAttr(op.attributes[attribute_names.DTYPE]).value)
        pack = op.operands[0].owner
        operands = [Scalar(v, type_) for v in tensors.tuple_elements(op.operands[0])]
        callee = ir.StringAttr(op.attributes["callee"]).value
        with ir.InsertionPoint(op), op.location:
            made = _EXPANSIONS[callee](*operands)
        replace(op, made.value)
        if not isinstance(pack, ir.Block) and not has_uses(pack.results[0]):
            erase(pack.opview if isinstance(pack, ir.Operation) else pack)
