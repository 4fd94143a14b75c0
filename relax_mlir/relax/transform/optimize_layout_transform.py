"""``OptimizeLayoutTransform``: layouts that undo one another go away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relax_mlir.objects.expr import Call, Expr, GlobalVar
from relax_mlir.objects.function import Function
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax.dpl import TuplePattern, is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.transform.function_rewriting import (
    FunctionRewriting,
    Matches,
    Rewriter,
    shape_of,
)
from relax_mlir.tir.schedule.index_map import IndexMap, limits_of
from relax_mlir.tir.schedule.indices import simplify

__all__ = ["OptimizeLayoutTransform"]


@dataclass(frozen=True)
class OptimizeLayoutTransform(FunctionRewriting):
    """Use a tensor itself where it is laid out as it was before `AlterOpImpl` laid it out.

    Between the two its padding may be removed; what the padding holds is not kept.
    """

    opt_level: ClassVar[int] = 0

    def rule(self, function: Function) -> tuple[DFPattern, Rewriter]:
        """A layout of a layout, perhaps of its elements without padding."""
        source, callee = wildcard(), wildcard()
        first = is_op("relax.layout_transform")(source)
        cut = is_op("relax.call_tir")(callee, TuplePattern([first]))
        whole = is_op("relax.layout_transform")(first)
        padded = is_op("relax.layout_transform")(cut)
        # Those without the attribute stay: somebody else wrote them.
        is_primitive = bool(function.attrs.get("Primitive"))

        def rewrite(expr: Expr, matches: Matches) -> Expr:
            tensor = matches[source]
            is_padded = padded in matches
            second = matches[padded if is_padded else whole]
            if is_primitive or (
                is_padded and not _removes_pad(function, matches[callee])
            ):
                return expr
            shapes = shape_of(second), shape_of(tensor)
            same = None not in shapes and structural_equal(*shapes)
            return tensor if same and _undoes(second, matches[first]) else expr

        return whole | padded, rewrite


def _removes_pad(function: Function, callee: Expr) -> bool:
    """Whether a program is what `AlterOpImpl` wrote to remove padding."""
    if not isinstance(callee, GlobalVar) or callee not in function.module:
        return False
    attrs = function.module[callee].attrs
    return str(attrs.get("operator_name")) == "remove_pad"


def _undoes(second: Expr, first: Expr) -> bool:
    """Whether the second of two layouts leads each element to where it was."""
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    try:
        back, _ = _map_of(first).non_surjective_inverse(shape_of(first.args[0]) or ())
    except ValueError:
        return False
    shape = shape_of(second.args[0]) or ()
    symbols = Symbols("int64")
    sizes = list(symbols.dims(shape))
    names, theirs = _map_of(second).dims(symbols)
    if len(names) != len(back.initial_indices):
        return False
    for var, name in zip(back.initial_indices, names, strict=True):
        symbols.alias(var, name)
    ours = back.dims(symbols)[1]
    limits = limits_of(names, sizes)
    return [simplify(d, limits) for d in ours] == [simplify(d, limits) for d in theirs]


def _map_of(call: Call) -> IndexMap:
    """The map of a layout, which is an affine map in MLIR."""
    places, made = str(call.attrs["index_map"]).split(" -> ")
    terms = made.strip("()").replace("floordiv", "//").replace("mod", "%")
    return IndexMap.from_text(f"lambda {places.strip('()')}: ({terms},)")
