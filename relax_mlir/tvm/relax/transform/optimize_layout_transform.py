"""``OptimizeLayoutTransform``: removes pairs of inverse layout transformations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import Call, Expr, GlobalVar
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.tvm.relax.dpl import TuplePattern, is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.function_rewriting import (
    FunctionRewriting,
    PatternMatches,
    PatternRewriter,
    shape_of,
)
from relax_mlir.tvm.tir.schedule.index_map import IndexMap, index_ranges
from relax_mlir.tvm.tir.schedule.indices import simplify

__all__ = ["OptimizeLayoutTransform"]


@dataclass(frozen=True)
class OptimizeLayoutTransform(FunctionRewriting):
    """Removes a layout transformation that undoes an earlier one.

    Padding may be removed in between; contents of the padding are not preserved.
    """

    opt_level: ClassVar[int] = 0

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Matches a layout transformation of another, with or without unpadding."""
        source, callee = wildcard(), wildcard()
        first = is_op("relax.layout_transform")(source)
        unpadded = is_op("relax.call_tir")(callee, TuplePattern([first]))
        direct_pair = is_op("relax.layout_transform")(first)
        unpadding_pair = is_op("relax.layout_transform")(unpadded)
        # Primitive functions stay as they are.
        is_primitive = bool(function.attrs.get("Primitive"))

        def rewrite(expr: Expr, matches: PatternMatches) -> Expr:
            tensor = matches[source]
            is_padded = unpadding_pair in matches
            second = matches[unpadding_pair if is_padded else direct_pair]
            if is_primitive or (
                is_padded and not _removes_pad(function, matches[callee])
            ):
                return expr
            shapes = shape_of(second), shape_of(tensor)
            same = None not in shapes and structural_equal(*shapes)
            return tensor if same and _is_inverse(second, matches[first]) else expr

        return direct_pair | unpadding_pair, rewrite


def _removes_pad(function: Function, callee: Expr) -> bool:
    """Returns whether a callee is the unpadding program of `AlterOpImpl`."""
    if not isinstance(callee, GlobalVar) or callee not in function.module:
        return False
    attrs = function.module[callee].attrs
    return str(attrs.get("operator_name")) == "remove_pad"


def _is_inverse(second: Expr, first: Expr) -> bool:
    """Returns whether the second layout transformation is the inverse of the first."""
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    try:
        inverse, _ = _index_map(first).non_surjective_inverse(
            shape_of(first.args[0]) or ()
        )
    except ValueError:
        return False
    shape = shape_of(second.args[0]) or ()
    symbols = Symbols("int64")
    sizes = list(symbols.dims(shape))
    names, second_dims = _index_map(second).dims(symbols)
    if len(names) != len(inverse.initial_indices):
        return False
    for var, name in zip(inverse.initial_indices, names, strict=True):
        symbols.alias(var, name)
    inverse_dims = inverse.dims(symbols)[1]
    limits = index_ranges(names, sizes)
    return [simplify(d, limits) for d in inverse_dims] == [
        simplify(d, limits) for d in second_dims
    ]


def _index_map(call: Call) -> IndexMap:
    """Parses the index map of a layout transformation from its affine map."""
    dims, results = str(call.attrs["index_map"]).split(" -> ")
    python_text = results.strip("()").replace("floordiv", "//").replace("mod", "%")
    return IndexMap.from_text(f"lambda {dims.strip('()')}: ({python_text},)")
